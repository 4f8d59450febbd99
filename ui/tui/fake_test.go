package tui

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// fakeNow is the time that tests run at.
func fakeNow() time.Time { return time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC) }

// fakeBackend plays the use cases: it asks for the PIN as a token does, and
// fails where it is told to.
type fakeBackend struct {
	mu         sync.Mutex
	tokens     []hsm.View
	problems   []hsm.Problem
	contexts   []contexts.View
	unfinished []enrolling.Progress
	tokensErr  error
	reviewErr  error
	notes      []string

	pin      string
	tries    int
	defaults error                    // the error of [fakeBackend.RefuseDefaults]
	fail     map[enrolling.Step]error // each fails once
	hang     map[enrolling.Step]bool  // waits until cancelled
	done     []enrolling.Step         // the steps of earlier runs
	pace     time.Duration            // for looking at it by eye
	noRights bool

	deeds     []string
	deedErr   error // the next deed's
	attestErr error

	requests    []request.View
	requestsErr error
	changes     chan request.Event
	refusals    []string

	offered   chan hsm.Prompter
	asker     hsm.Prompter
	renewed   chan struct{}
	forecast  []csr.Point
	policy    consent.Policy
	following atomic.Int32 // logs and watches that go on
	unproven  string
	spareErr  error
	deskErr   error
	tickets   []deeds.Deed

	asked  []hsm.PINPrompt
	got    enrolling.Options
	runs   int
	cancel int
}

func fakeKey(seed int64) crypto.PublicKey {
	c := elliptic.P256()
	x, y := c.ScalarBaseMult(big.NewInt(seed).Bytes()) //nolint:staticcheck // a fixed key for stable frames
	return &ecdsa.PublicKey{Curve: c, X: x, Y: y}
}

func fakeCertificate(cn string, key crypto.PublicKey, before, after time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: cn, Organization: []string{"dev"}}, Issuer: pkix.Name{CommonName: "kubernetes"},
		SerialNumber: big.NewInt(42), PublicKey: key,
		NotBefore: fakeNow().Add(-before), NotAfter: fakeNow().Add(after),
	}
}

func softToken() hsm.View {
	info := hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: "trial", Manufacturer: "SoftHSM project", Model: "SoftHSM v2",
		Serial: "8fc1d3a25d90be17", Reader: "SoftHSM slot ID 0x5d90be17", Initialized: true,
		Module: &hsm.Module{Path: "/usr/lib/softhsm/libsofthsm2.so"}, PIN: hsm.PINState{Retries: -1, MinLen: 4, MaxLen: 255},
		Can: hsm.Abilities{Generate: true, Store: true, Delete: true, DeleteCertificate: true, ChangePIN: true, Initialize: true}}
	return hsm.View{Info: info}
}

func pivToken() hsm.View {
	info := hsm.TokenInfo{Scheme: hsm.SchemePIV, Model: "YubiKey 5C NFC", Manufacturer: "Yubico", Serial: "12345678", Firmware: "5.4.3",
		Reader: "Yubico YubiKey OTP+FIDO+CCID 00 00", Initialized: true, PIN: hsm.PINState{Retries: 2, Low: true, MinLen: 6, MaxLen: 8},
		Can: hsm.Abilities{Generate: true, Store: true, Delete: true, DeleteCertificate: true, Move: true, Attest: true, Details: true,
			ChangePIN: true, SetRetries: true, ManagementKey: true, Reset: true, Policies: true,
			Lack: hsm.Lack{Algorithms: "rsa-3072 rsa-4096 ed25519", Why: "needs firmware 5.7 or newer"}}}
	slot := func(id string) hsm.Slot {
		u := info.URI()
		u.Slot = id
		return hsm.Slot{URI: u, ID: id}
	}
	day := 24 * time.Hour
	a, c, d := slot("9a"), slot("9c"), slot("9d")
	a.Key = &hsm.Key{Algorithm: hsm.ECDSAP256, Public: fakeKey(7), Origin: hsm.Generated, PIN: hsm.PINOnce, Touch: hsm.TouchCached}
	a.Certificate = fakeCertificate("jane", a.Key.Public, 10*day, 80*day)
	c.Key = &hsm.Key{Algorithm: hsm.RSA2048, Public: fakeKey(9), Origin: hsm.Imported, PIN: hsm.PINAlways, Touch: hsm.TouchNever}
	c.Certificate = fakeCertificate("田中 太郎", c.Key.Public, 300*day, 5*day)
	return hsm.View{Info: info, Slots: []hsm.Slot{a, c, d}}
}

func newFake() *fakeBackend {
	return &fakeBackend{
		tokens: []hsm.View{softToken(), pivToken()},
		contexts: []contexts.View{
			{Name: "trial-admin", Cluster: "trial", Server: "https://127.0.0.1:6443", User: "admin", UserKind: "key file", File: "/home/jane/.kube/config", Current: true},
			{Name: "staging", Cluster: "staging", Server: "https://staging.example.com:6443", User: "jane", UserKind: "token", File: "/home/jane/.kube/config"},
		},
		requests: fakeRequests(),
		offered:  make(chan hsm.Prompter, 1), renewed: make(chan struct{}),
		pin: "648219", tries: 3, fail: map[enrolling.Step]error{}, hang: map[enrolling.Step]bool{},
	}
}

// set changes what is true from now on; commands that are still under way may read it.
func (f *fakeBackend) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeBackend) Tokens(ctx context.Context) ([]hsm.View, []hsm.Problem, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tokens, f.problems, errors.Join(f.tokensErr, ctx.Err())
}

func (f *fakeBackend) Contexts(ctx context.Context) ([]contexts.View, error) {
	return f.contexts, ctx.Err()
}

func (f *fakeBackend) Unfinished(ctx context.Context) ([]enrolling.Progress, error) {
	return f.unfinished, ctx.Err()
}

func (f *fakeBackend) TakeCertificate(_ context.Context, name string, pem []byte) error {
	return f.did("certificate of %s: %s", name, pem)
}

func (f *fakeBackend) RefuseDefaults(context.Context, hsm.URI, bool) error { return f.defaults }

func (f *fakeBackend) NewJoinPUK(ctx context.Context, o enrolling.Options, _ func() error, p hsm.Prompter) (*enroll.JoinPUK, error) {
	if _, err := p.PIN(ctx, hsm.PINPrompt{Kind: hsm.PUK, Retries: 3}); err != nil {
		return nil, err
	}
	return &enroll.JoinPUK{Serial: "12345678", Sealed: "sealed-for-" + o.Join.Ticket}, f.did("random PUK")
}

func (f *fakeBackend) Complete(ctx context.Context, o enrolling.Options) (enrolling.Options, error) {
	if o.Context == "" && o.Join == nil {
		o.Context = "trial-admin"
	}
	if o.Name == "" {
		o.Name = o.Context + "-hsm"
	}
	if o.User == "" {
		return o, errors.New("no user name is given")
	}
	return o, ctx.Err()
}

func (f *fakeBackend) Review(ctx context.Context, o enrolling.Options) (enroll.Review, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.Complete(ctx, o)
	if f.reviewErr != nil && !o.Restart && o.AcceptUnverified == "" {
		err = f.reviewErr
	}
	if err != nil {
		return enroll.Review{}, err
	}
	return enroll.Review{
		Options: o, Token: f.tokens[0].Info, Server: "https://127.0.0.1:6443", Resumes: f.done,
		Forecast:       f.forecast,
		Notes:          append([]string{"somebody with the right to approve must approve the request"}, f.notes...),
		Commands:       []string{"kubehsm enroll --name " + o.Name + " --token 'pkcs11:token=trial' --context " + o.Context + " --user " + o.User},
		KubeconfigFile: "/home/jane/.kube/config",
		KubeconfigDiff: "--- /home/jane/.kube/config\n+++ /home/jane/.kube/config\n@@ -10,3 +10,12 @@\n   user: admin\n" +
			"-current-context: trial-admin\n+- cluster: trial-admin-hsm\n+  name: trial-admin-hsm\n+current-context: trial-admin-hsm\n kind: Config\n",
	}, nil
}

func (f *fakeBackend) takeFailure(s enrolling.Step) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fail[s]
	delete(f.fail, s)
	return err
}

func (f *fakeBackend) Enroll(ctx context.Context, o enrolling.Options, p hsm.Prompter, report func(enrolling.Event)) (enrolling.Result, error) {
	f.mu.Lock()
	f.got, f.runs = o, f.runs+1
	f.mu.Unlock()
	for _, s := range enrolling.Steps() {
		report(enrolling.Event{Step: s, State: enrolling.StepRunning, Message: map[enrolling.Step]string{enrolling.StepApproval: "waiting for somebody to approve " + o.Name}[s]})
		if err := f.step(ctx, s, p); err != nil {
			if ctx.Err() != nil {
				f.mu.Lock()
				f.cancel++
				f.mu.Unlock()
			}
			report(enrolling.Event{Step: s, State: enrolling.StepFailed, Err: err})
			return enrolling.Result{}, err
		}
		f.mu.Lock()
		state := enrolling.StepDone
		for _, d := range f.done {
			if d == s {
				state = enrolling.StepReused
			}
		}
		f.done = append(f.done, s)
		f.mu.Unlock()
		report(enrolling.Event{Step: s, State: state, Message: "ok"})
	}
	return fakeResult(o, !f.noRights), nil
}

func (f *fakeBackend) step(ctx context.Context, s enrolling.Step, p hsm.Prompter) error {
	if f.pace > 0 {
		t := time.NewTimer(f.pace)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := f.takeFailure(s); err != nil {
		return err
	}
	if f.hang[s] {
		<-ctx.Done()
		return ctx.Err()
	}
	if s == enrolling.StepKey {
		return f.unlock(ctx, ask.With(p, hsm.Purpose{Cluster: "trial-admin-hsm", Action: "generate a key"}))
	}
	return ctx.Err()
}

func (f *fakeBackend) unlock(ctx context.Context, p hsm.Prompter) error {
	state := func() (hsm.TokenInfo, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		i := f.tokens[0].Info
		i.PIN.Retries, i.PIN.Final, i.PIN.Locked = f.tries, f.tries == 1, f.tries == 0
		return i, nil
	}
	return hsm.AskPIN(ctx, recorder{f, p}, hsm.UserPIN, state, func(s *hsm.Secret) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if string(s.Bytes()) == f.pin {
			return nil
		}
		f.tries--
		return &hsm.PINError{Kind: hsm.UserPIN, Retries: f.tries}
	})
}

// recorder notes what is asked.
type recorder struct {
	f *fakeBackend
	hsm.Prompter
}

func (r recorder) PIN(ctx context.Context, q hsm.PINPrompt) (*hsm.Secret, error) {
	r.f.mu.Lock()
	r.f.asked = append(r.f.asked, q)
	r.f.mu.Unlock()
	return r.Prompter.PIN(ctx, q)
}

func fakeResult(o enrolling.Options, rights bool) enrolling.Result {
	r := enrolling.Result{
		Name: o.Name, Context: o.Name, Kubeconfig: "/home/jane/.kube/config", Key: o.Token, Request: "kubehsm-jane-7x2kp",
		Fingerprint: "3b1f0c6de1c54cf5b9be9a3e6c1fb0a70d4a9e1da8a40f2f51f3c79a6d0c2e11",
		NotAfter:    fakeNow().Add(90 * 24 * time.Hour), User: o.User, Groups: []string{"dev", "system:authenticated"}, Rights: rights,
		Next: []string{"kubectl --context " + o.Name + " auth whoami", "kubectl get namespaces"},
	}
	if !rights {
		r.Ask = "kubectl create clusterrolebinding " + o.User + "-view --clusterrole=view --user=" + o.User
	}
	return r
}
