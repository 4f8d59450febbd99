package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

type answerer func(ctx context.Context, r externalsigner.Request, tell func(string)) (externalsigner.Answer, error)

// serve runs the service with an answerer and connects to it. end ends it and
// returns its error.
func serve(t *testing.T, a answerer) (client v1alpha1.ExternalSignerServiceClient, path string, end func() error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s", "sock")
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- ListenAndServe(ctx, path, Options{Answer: a}, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	end = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := errors.Join(end(), conn.Close()); err != nil {
			t.Error(err)
		}
	})
	return v1alpha1.NewExternalSignerServiceClient(conn), path, end
}

var config = map[string]string{"uri": "pkcs11:token=a;id=%02"}

func generic(hash uint32) *v1alpha1.SignatureRequest_GenericSignerOptions {
	return &v1alpha1.SignatureRequest_GenericSignerOptions{Hash: hash}
}

// signature asks for one and returns the prompts before it.
func signature(t *testing.T, c v1alpha1.ExternalSignerServiceClient, r *v1alpha1.SignatureRequest) (prompts []string,
	signature []byte, err error) {
	t.Helper()
	stream, err := c.Sign(t.Context(), r)
	if err != nil {
		return nil, nil, err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return prompts, signature, err
		}
		if text := m.GetUserPrompt(); text != "" {
			prompts = append(prompts, text)
		} else {
			return prompts, m.GetSignature(), nil
		}
	}
}

func TestPromptsComeFirst(t *testing.T) {
	c, _, _ := serve(t, func(_ context.Context, r externalsigner.Request, tell func(string)) (externalsigner.Answer,
		error) {
		tell("one\x1b[2J\nline\u202e")
		tell("two")
		return externalsigner.Answer{Signature: r.Digest}, nil
	})
	digest := make([]byte, 32)
	digest[0] = 7
	prompts, got, err := signature(t, c, &v1alpha1.SignatureRequest{Configuration: config, Digest: digest,
		SignerOpts: &v1alpha1.SignatureRequest_SignerOptsECDSA{SignerOptsECDSA: generic(5)}})
	if err != nil || string(got) != string(digest) || len(prompts) != 2 || prompts[0] != "one\ufffd[2J line\ufffd" ||
		prompts[1] != "two" {
		t.Errorf("prompts %q, signature %x, %v", prompts, got, err)
	}
	v, err := c.Version(t.Context(), &v1alpha1.VersionRequest{Version: "v1alpha1"})
	if err != nil || v.GetVersion() != "v1alpha1" {
		t.Errorf("version %v, %v", v, err)
	}
}

// TestBadRequests: nothing that does not hold together is answered.
func TestBadRequests(t *testing.T) {
	c, _, _ := serve(t, func(context.Context, externalsigner.Request, func(string)) (externalsigner.Answer, error) {
		t.Error("it was answered")
		return externalsigner.Answer{}, nil
	})
	pss := func(salt int32, hash uint32) *v1alpha1.SignatureRequest_SignerOptsRSAPSS {
		return &v1alpha1.SignatureRequest_SignerOptsRSAPSS{SignerOptsRSAPSS: &v1alpha1.SignatureRequest_RSAPSSOptions{SaltLenght: salt, Hash: hash}}
	}
	for says, r := range map[string]*v1alpha1.SignatureRequest{
		"signerOpts is missing":     {Configuration: config, Digest: make([]byte, 32)},
		"is not spoken here":        {Version: "v2", Configuration: config, Digest: make([]byte, 32), SignerOpts: pss(-1, 5)},
		"31 bytes is no SHA-256":    {Configuration: config, Digest: make([]byte, 31), SignerOpts: pss(-1, 5)},
		"0 bytes is no SHA-256":     {Configuration: config, SignerOpts: pss(-1, 5)},
		"salt of -2 bytes":          {Configuration: config, Digest: make([]byte, 32), SignerOpts: pss(-2, 5)},
		"RSA-PSS needs a hash":      {Configuration: config, Digest: make([]byte, 32), SignerOpts: pss(-1, 0)},
		"hash number 3 ":            {Configuration: config, Digest: make([]byte, 20), SignerOpts: pss(-1, 3)},
		"ECDSA needs a hash":        {Configuration: config, Digest: make([]byte, 32), SignerOpts: &v1alpha1.SignatureRequest_SignerOptsECDSA{SignerOptsECDSA: generic(0)}},
		"v1.5 needs a hash":         {Configuration: config, Digest: make([]byte, 32), SignerOpts: &v1alpha1.SignatureRequest_SignerOptsRSAPKCS1{}},
		"signs the message itself":  {Configuration: config, Digest: make([]byte, 32), SignerOpts: &v1alpha1.SignatureRequest_SignerOptsED25519{SignerOptsED25519: generic(5)}},
		"names no key":              {Digest: make([]byte, 32), SignerOpts: pss(-1, 5)},
		"a message of 65537 bytes:": {Configuration: config, Digest: make([]byte, wire.MaxMessage+1), SignerOpts: &v1alpha1.SignatureRequest_SignerOptsED25519{}},
	} {
		_, _, err := signature(t, c, r)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
	_, _, err := signature(t, c, &v1alpha1.SignatureRequest{Configuration: config, Digest: make([]byte, wire.MaxRequest+1),
		SignerOpts: pss(-1, 5)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a huge request: %v", err)
	}
}

// TestErrors: clients get the text with the next step on one line, and a code.
func TestErrors(t *testing.T) {
	var err error
	c, _, _ := serve(t, func(context.Context, externalsigner.Request, func(string)) (externalsigner.Answer, error) {
		return externalsigner.Answer{}, err
	})
	for _, each := range []struct {
		err  error
		code codes.Code
	}{
		{hsm.ErrNoToken, codes.NotFound}, {hsm.ErrNoKey, codes.NotFound}, {hsm.ErrNoCertificate, codes.NotFound},
		{externalsigner.ErrRequest, codes.InvalidArgument}, {externalsigner.ErrUntrusted, codes.PermissionDenied},
		{hsm.ErrCancelled, codes.Canceled}, {hsm.ErrPINIncorrect, codes.FailedPrecondition}, {context.DeadlineExceeded, codes.DeadlineExceeded},
	} {
		err = hint.With(each.err, "do\nthis")
		stream, cerr := c.GetCertificate(t.Context(), &v1alpha1.CertificateRequest{Configuration: config})
		if cerr != nil {
			t.Fatal(cerr)
		}
		_, got := stream.Recv()
		if s := status.Convert(got); s.Code() != each.code || !strings.HasSuffix(s.Message(), " (do this)") {
			t.Errorf("%v: %v", each.err, got)
		}
	}
}

// TestEnd: answers under way are told to end, and the socket goes.
func TestEnd(t *testing.T) {
	began := make(chan struct{})
	c, path, end := serve(t, func(ctx context.Context, _ externalsigner.Request, _ func(string)) (externalsigner.Answer,
		error) {
		close(began)
		<-ctx.Done()
		return externalsigner.Answer{}, context.Cause(ctx)
	})
	go func() { <-began; _ = end() }() // asked for again below
	stream, err := c.GetCertificate(t.Context(), &v1alpha1.CertificateRequest{Configuration: config})
	check(t, err)
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "is ending") {
		t.Errorf("error %v", err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}

// TestClientLeaves: nobody goes on for a client that is gone.
func TestClientLeaves(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	c, _, _ := serve(t, func(ctx context.Context, _ externalsigner.Request, _ func(string)) (externalsigner.Answer,
		error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return externalsigner.Answer{}, ctx.Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	if _, err := c.GetCertificate(ctx, &v1alpha1.CertificateRequest{Configuration: config}); err != nil {
		t.Fatal(err)
	}
	<-began
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestSocket(t *testing.T) {
	_, path, _ := serve(t, nil)
	for file, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	never := func() { t.Error("it listens") }
	if err := ListenAndServe(t.Context(), path, Options{}, never); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	open := filepath.Join(t.TempDir(), "open")
	check(t, errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)))
	if err := ListenAndServe(t.Context(), filepath.Join(open, "sock"), Options{}, never); !errors.Is(err, home.ErrUnsafe) {
		t.Errorf("in a folder that others may write: %v", err)
	}
}

// TestTold: the client's user hears of what is asked elsewhere, and of a touch
// only if it takes its time.
func TestTold(t *testing.T) { synctest.Test(t, testTold) }

func testTold(t *testing.T) {
	var heard []string
	p := Announced("where the external signer runs",
		func(text string) { heard = append(heard, text) })(ask.From(hsmtest.Typing(t, "1234")))
	said := func() []string {
		synctest.Wait()
		defer func() { heard = nil }()
		return heard
	}
	token := hsm.TokenInfo{Label: "work"}
	pin, err := p.PIN(t.Context(), hsm.PINPrompt{Kind: hsm.UserPIN, Token: token, Again: "wrong PIN"})
	if err != nil || string(pin.Bytes()) != "1234" {
		t.Errorf("PIN %v", err)
	}
	if got := said(); len(got) != 1 ||
		got[0] != "wrong PIN; kubehsm asks for the PIN of work: answer where the external signer runs" {
		t.Errorf("heard %q", got)
	}
	p.Touch(t.Context(), hsm.TouchPrompt{Token: token})()
	time.Sleep(2 * touchDelay)
	if got := said(); len(got) != 0 {
		t.Errorf("heard %q", got)
	}
	done := p.Touch(t.Context(), hsm.TouchPrompt{Token: token})
	defer done()
	time.Sleep(touchDelay)
	if got := said(); len(got) != 1 || got[0] != "touch work when it blinks" {
		t.Errorf("heard %q", got)
	}
}

// TestRefusedPath: nothing is left beside a path that is refused, nor made where a
// link leads.
func TestRefusedPath(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	check(t, errors.Join(os.WriteFile(in("file"), nil, 0o600), os.Symlink(in("victim"), in("linked.lock"))))
	for path, want := range map[string]string{
		in("file"):                   "already exists and is not a socket",
		folder:                       "already exists and is not a socket",
		in(strings.Repeat("n", 120)): "too long",
		in(strings.Repeat("n", 300)): "too long",
		in("linked"):                 "is there already and is not a regular file",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := ListenAndServe(ctx, path, Options{}, cancel)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	for _, left := range []string{folder, filepath.Dir(folder)} {
		names, err := filepath.Glob(filepath.Join(left, "*"))
		check(t, err)
		for _, name := range names {
			if name != in("file") && name != in("linked.lock") && name != folder {
				t.Errorf("%s was left", name)
			}
		}
	}
}
