//go:build linux

package externalsigner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// serve runs the gRPC form on a terminal and returns its address.
func (p *person) serve(args ...string) (*term.Session, string) {
	p.t.Helper()
	path := filepath.Join(p.Dir, "s", "signer.sock")
	s := term.Run(p.t, term.Options{Path: p.Binary,
		Args: append([]string{"external-signer", "serve", "--socket", path}, args...),
		Dir:  p.Dir, Env: p.Env(), Columns: 160, Rows: 60})
	s.WaitFor("serving unix://" + path)
	return s, "unix://" + path
}

// TestServe: the PIN is typed where the signer runs, and kubectl says so.
func TestServe(t *testing.T) {
	p := newPerson(t)
	if err := p.Cluster.RunPod(t.Context(), "default", "web"); err != nil {
		t.Fatal(err)
	}
	s, address := p.serve()
	path := strings.TrimPrefix(address, "unix://")
	for file, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	signatures := 0
	signed := func() { // kubectl has its signature before the line that says so is there
		signatures++
		// In all of the output: the next line may have come, and the first have scrolled away.
		s.WaitUntil("one more signature is made",
			func(term.Frame) bool { return strings.Count(s.Output(), "signature: done") >= signatures })
	}
	for _, a := range []hsm.Algorithm{hsm.RSA2048, hsm.ECDSAP256, hsm.ECDSAP384, hsm.Ed25519} {
		uri, err := p.key(a)
		if err != nil {
			t.Fatal(err)
		}
		p.configureSocket(map[string]string{"uri": uri.String()}, address)
		done := p.start("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
		s.WaitFor("for: kubectl-externalsigner auth whoami")
		s.Answer("needs its PIN", lab.PIN)
		s.WaitGone("needs its PIN")
		if res := <-done; res.Code != 0 || res.Stdout != string(a) ||
			!strings.Contains(res.Stderr, "kubehsm asks for the PIN of "+lab.Token) {
			t.Errorf("%s: %s", a, res)
		}
		signed()
	}
	// Two at once: one after the other, and each is told.
	one, two := p.start("exec", "web", "--", "echo", "one"), p.start("exec", "web", "--", "echo", "two")
	for range 2 { // the second question may stand where the first was
		s.Answer("needs its PIN", lab.PIN)
		signed()
	}
	for want, done := range map[string]chan lab.Result{"one\n": one, "two\n": two} {
		if res := <-done; res.Code != 0 || res.Stdout != want {
			t.Errorf("want %q: %s", want, res)
		}
	}
	res := p.other(t, "external-signer", "serve", "--socket", path)
	if res.Code != 1 || !strings.Contains(res.Stderr, "another external signer serves this socket") {
		t.Errorf("a second signer on the socket: %s", res)
	}
	s.Press(term.CtrlC)
	if code := s.Exit(); code != 130 && code != 0 {
		t.Errorf("exit code %d:\n%s", code, s.Output())
	}
	if n := strings.Count(s.Output(), "signature: done"); n != signatures {
		t.Errorf("%d signatures are said to be done, not %d", n, signatures)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket was left: %v", err)
	}
	if strings.Contains(s.Output(), lab.PIN) {
		t.Error("the PIN was shown")
	}
}

// TestServeAfterACrash: the socket of a signer that was killed is replaced; any
// other file is left alone.
func TestServeAfterACrash(t *testing.T) {
	p := newPerson(t)
	s, address := p.serve()
	process, err := os.FindProcess(s.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Exit()
	path := strings.TrimPrefix(address, "unix://")
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("nothing was left: %v", err)
	}
	p.configureSocket(map[string]string{"uri": "pkcs11:token=x;id=%02"}, address)
	if res := p.kubectl("get", "namespaces"); res.Code != 1 ||
		!strings.Contains(res.Stderr, "start `kubehsm external-signer serve`") ||
		strings.Contains(res.Stderr, "did you specify the right host") {
		t.Errorf("nobody answers: %s", res)
	}
	s, _ = p.serve()
	s.Press(term.CtrlC)
	s.Exit()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := p.other(t, "external-signer", "serve", "--socket", path); res.Code != 1 ||
		!strings.Contains(res.Stderr, "already exists and is not a socket") {
		t.Errorf("a file in the way: %s", res)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the file: %q, %v", b, err)
	}
}

// start runs the kubectl with the provider, without a terminal, beside the test.
func (p *person) start(args ...string) chan lab.Result {
	done := make(chan lab.Result, 1)
	go func() {
		res, err := p.Run(p.t.Context(), lab.Run{}, programs.Kubectl, args...)
		if err != nil {
			p.t.Error(err)
		}
		done <- res
	}()
	return done
}

func (p *person) other(t *testing.T, args ...string) lab.Result {
	t.Helper()
	res, err := p.Kubehsm(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
