//go:build unix

package pinsource

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"file:/run/pin":            "file:/run/pin",
		"file:///run/pin":          "file:/run/pin",
		"file://localhost/run/pin": "file:/run/pin",
		"/run/pin":                 "file:/run/pin",
		"file:/run/a b":            "file:/run/a b",
		"credential:hsm-pin":       "credential:hsm-pin",
		"fd:3":                     "fd:3",
		"":                         "", "pin": "", "file:pin": "", "file:/run/../etc/pin": "", "/run//pin": "", "file://host/pin": "",
		"file:/a\x00b": "", "credential:": "", "credential:a/b": "", "credential:..": "", "fd:": "", "fd:-1": "", "fd:03": "", "fd:99999": "",
		"|cat /run/pin": "", "env:PIN": "", "https://x/pin": "",
	} {
		s, err := Parse(in)
		if s.String() != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", in, s, err)
		}
		if err != nil && hinting.Of(err) == "" {
			t.Errorf("%q: no hint", in)
		}
	}
}

func entries(t *testing.T, text string) []Entry {
	t.Helper()
	var c settings.Config
	check(t, yaml.Unmarshal([]byte("pinSources: "+text), &c))
	all, err := Entries(c)
	check(t, err)
	return all
}

func TestEntries(t *testing.T) {
	for text, words := range map[string]string{
		"[{token: 'piv:serial=1', source: 'fd:3'}]":              "",
		"[{source: 'fd:3'}]":                                     "malformed token URI",
		"[{token: 'piv:serial=1'}]":                              "no PIN source",
		"[{token: 'pkcs11:token=prod', source: 'fd:3'}]":         "without its serial",
		"[{token: 'piv:serial=1;slot=9a', source: 'fd:3'}]":      "more than a token",
		"[{token: 'pkcs11:serial=1;object=x', source: 'fd:3'}]":  "more than a token",
		"[{token: 'pkcs11:serial=1?pin-source=/x', source: /x}]": "more than a token",
		"[{token: 'pkcs11:serial=1', source: 'env:PIN'}]":        "no PIN source",
	} {
		var c settings.Config
		check(t, yaml.Unmarshal([]byte("pinSources: "+text), &c))
		_, err := Entries(c)
		if (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLazy: nothing is made before somebody is asked, and every question gets the same
// failure.
func TestLazy(t *testing.T) {
	failure, made := errors.New("no folder"), 0
	p := Lazy(func() (*Sources, ask.Func, error) { made++; return nil, nil, failure })
	if made != 0 {
		t.Error("made although nobody was asked")
	}
	for range 2 {
		if _, err := p.PIN(t.Context(), hsm.PINPrompt{}); !errors.Is(err, failure) || made != 1 {
			t.Errorf("%v after %d", err, made)
		}
	}
	p = Lazy(func() (*Sources, ask.Func, error) {
		made++
		return New(Options{}), ask.From(hsmtest.NewScript(t, hsmtest.Yes(), hsmtest.PIN("847261"))), nil
	})
	if yes, err := p.Confirm(t.Context(), hsm.ConfirmPrompt{}); err != nil || !yes {
		t.Errorf("%v", err)
	}
	if pin, err := p.PIN(t.Context(), hsm.PINPrompt{Kind: hsm.UserPIN}); err != nil || string(pin.Bytes()) != "847261" ||
		made != 2 {
		t.Errorf("%v after %d", err, made)
	}
}

// TestListed: the URI of a kubeconfig gets no PIN that the configuration does not
// give.
func TestListed(t *testing.T) {
	list := entries(t, "[{token: 'pkcs11:token=prod;serial=1', source: /run/pin}]")
	for uri, ok := range map[string]bool{
		"pkcs11:token=prod":                                   true,
		"pkcs11:token=prod?pin-source=file:/run/pin":          true,
		"pkcs11:serial=1;object=k?pin-source=file:///run/pin": true,
		"pkcs11:serial=2?pin-source=file:/run/pin":            false,
		"pkcs11:token=other?pin-source=file:/run/pin":         false,
		"pkcs11:serial=1?pin-source=file:/etc/passwd":         false,
		"pkcs11:serial=1?pin-source=%7Ccat%20/run/pin":        false,
		"pkcs11:serial=1?pin-source=pin":                      false,
	} {
		u, err := hsm.ParseURI(uri)
		check(t, err)
		if err := Listed(list, u); (err == nil) != ok || err != nil && hinting.Of(err) == "" {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// person is asked when the source does not answer.
type person struct {
	t      *testing.T
	nobody bool
	mu     sync.Mutex
	asked  []hsm.PINPrompt
}

func (p *person) ask(_ context.Context, q ask.Question) (ask.Answer, error) {
	p.mu.Lock()
	p.asked = append(p.asked, *q.PIN)
	p.mu.Unlock()
	if p.nobody {
		return ask.Answer{}, hinting.With(hsm.ErrNoTerminal, "unlock")
	}
	return ask.Answer{PIN: hsm.NewSecret([]byte("typed"))}, nil
}

// started is one process's sources, before a person.
type started struct {
	*Sources
	ask.Func
}

func prompt(again string, tries int) hsm.PINPrompt {
	return hsm.PINPrompt{Kind: hsm.UserPIN, Again: again, Retries: tries,
		Token: hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: "prod", Serial: "1", PIN: hsm.PINState{Retries: tries}}}
}

// desk is a user's folder with a PIN file.
type desk struct {
	*testing.T
	dir, file string
	env       map[string]string
	who       person
	source    string
}

func newDesk(t *testing.T, pin string) *desk {
	d := &desk{T: t, dir: t.TempDir(), env: map[string]string{}, who: person{t: t, nobody: true}}
	d.file = filepath.Join(d.dir, "pin")
	d.source = "file:" + d.file
	check(t, os.WriteFile(d.file, []byte(pin+"\nsecond line\n"), 0o600))
	return d
}

// process is a new process.
func (d *desk) process() started {
	p := New(Options{
		Entries: entries(d.T, "[{token: 'pkcs11:serial=1', source: '"+d.source+"'}]"), State: filepath.Join(d.dir, "state"),
		Getenv: func(k string) string { return d.env[k] }, Descriptors: true,
	})
	d.Cleanup(func() { check(d.T, p.Close()) })
	return started{p, p.Before(d.who.ask)}
}

func (d *desk) wants(p started, q hsm.PINPrompt, pin string) {
	d.Helper()
	s, err := p.PIN(d.Context(), q)
	if err != nil || string(s.Bytes()) != pin {
		d.Errorf("a PIN of %d bytes, %v; want %q", s.Len(), err, pin)
	}
	s.Zero()
}

func (d *desk) refuses(p started, q hsm.PINPrompt, target error, words string) {
	d.Helper()
	s, err := p.PIN(d.Context(), q)
	if s != nil || !errors.Is(err, target) || !strings.Contains(err.Error(), words) || hinting.Of(err) == "" {
		d.Errorf("%v, hint %q; want %v with %q", err, hinting.Of(err), target, words)
	}
	if s := err.Error() + hinting.Of(err); strings.Contains(s, "271828") {
		d.Errorf("the PIN is in the error: %s", s)
	}
}

func TestAnswers(t *testing.T) {
	d := newDesk(t, "271828")
	p := d.process()
	for range 2 {
		d.wants(p, prompt("", -1), "271828")
	}
	d.who.nobody = false
	other := prompt("", -1)
	other.Token.Serial = "2"
	fresh, so, card := prompt("", -1), prompt("", -1), prompt("", -1)
	fresh.New, so.Kind, card.Token.Scheme = true, hsm.SOPIN, hsm.SchemePIV
	for _, q := range []hsm.PINPrompt{other, fresh, so, card} {
		d.wants(p, q, "typed")
	}
}

// TestWhileCounted: a token that counts wrong PINs gets none from a source.
func TestWhileCounted(t *testing.T) {
	d := newDesk(t, "271828")
	p := d.process()
	d.refuses(p, prompt("", 2), hsm.ErrNoTerminal, "counts wrong PINs")
	low := prompt("", -1)
	low.Token.PIN.Low = true
	d.refuses(p, low, hsm.ErrNoTerminal, "counts wrong PINs")
	// An agent that holds the token unlocked asks for no PIN at an unlock alone.
	if _, err := p.PIN(t.Context(), low); !strings.Contains(hinting.Of(err),
		"`kubehsm agent lock` and then `kubehsm unlock`") {
		t.Errorf("hint %q", hinting.Of(err))
	}
	d.who.nobody = false
	d.wants(p, low, "typed")
	if again := d.who.asked[len(d.who.asked)-1].Again; !strings.Contains(again, "counts wrong PINs") {
		t.Errorf("the person is told %q", again)
	}
	d.wants(p, prompt("wrong PIN", 3), "typed") // the person's was wrong: that is counted, too
}

// TestRefused: what a token refused is never tried again, by no process, until
// it changes.
func TestRefused(t *testing.T) {
	d := newDesk(t, "271828")
	p := d.process()
	d.wants(p, prompt("", -1), "271828")
	d.refuses(p, prompt("wrong PIN: 2 tries left", -1), hsm.ErrPINIncorrect, "wrong PIN: 2 tries left")
	d.refuses(p, prompt("", -1), hsm.ErrPINIncorrect, "refused before")
	q := d.process()
	d.refuses(q, prompt("", -1), hsm.ErrPINIncorrect, "refused before")
	d.who.nobody = false
	d.wants(q, prompt("", -1), "typed")
	d.wants(q, prompt("wrong PIN", -1), "typed")
	d.who.nobody = true

	check(t, os.WriteFile(d.file, []byte("314159265\n"), 0o600))
	q = d.process()
	d.wants(q, prompt("", -1), "314159265")
	d.refuses(q, prompt("wrong PIN", -1), hsm.ErrPINIncorrect, "wrong PIN")
	d.refuses(d.process(), prompt("", -1), hsm.ErrPINIncorrect, "refused before")
	marks, err := filepath.Glob(filepath.Join(d.dir, "state", "pin-refused-*"))
	if err != nil || len(marks) != 1 {
		t.Errorf("left in the state folder: %q, %v", marks, err)
	}
	b, err := os.ReadFile(marks[0])
	if err != nil || len(b) != 0 {
		t.Errorf("the mark holds %d bytes: %v", len(b), err)
	}
}

// TestUnremembered: where a refusal could not be remembered, nothing is tried.
func TestUnremembered(t *testing.T) {
	d := newDesk(t, "271828")
	check(t, os.WriteFile(filepath.Join(d.dir, "state"), nil, 0o600))
	_, err := d.process().PIN(t.Context(), prompt("", -1))
	if !errors.Is(err, hsm.ErrNoTerminal) || !strings.Contains(err.Error(), "not a directory") {
		t.Error(err)
	}
}

func TestCredential(t *testing.T) {
	d := newDesk(t, "271828")
	d.source = "credential:pin"
	d.refuses(d.process(), prompt("", -1), hsm.ErrNoTerminal, "CREDENTIALS_DIRECTORY is not set")
	d.env["CREDENTIALS_DIRECTORY"] = d.dir
	check(t, os.Chmod(d.file, 0o440)) // mode bits that systemd's access control list shows
	p := d.process()
	d.wants(p, prompt("", -1), "271828")
	d.refuses(p, prompt("wrong PIN", -1), hsm.ErrPINIncorrect, "wrong PIN")
	// The service is started again: another file, the same PIN.
	check(t, os.Remove(d.file))
	check(t, os.WriteFile(d.file, []byte("271828\nsecond line\n"), 0o400))
	_, err := d.process().PIN(t.Context(), prompt("", -1))
	if !errors.Is(err, hsm.ErrPINIncorrect) {
		t.Fatalf("a refused credential was used again: %v", err)
	}
	_, mark, _ := strings.Cut(hinting.Of(err), "remove ")
	check(t, os.Remove(mark))
	d.wants(d.process(), prompt("", -1), "271828")
}

func TestDescriptor(t *testing.T) {
	d := newDesk(t, "")
	r, w, err := os.Pipe()
	check(t, err)
	_, err = w.WriteString("271828\n")
	check(t, err)
	check(t, w.Close())
	d.source = "fd:" + strconv.Itoa(int(r.Fd()))
	// What Go opens is not handed over; neither is what nobody has opened.
	d.refuses(d.process(), prompt("", -1), hsm.ErrNoTerminal, "not open")
	_, err = unix.FcntlInt(r.Fd(), unix.F_SETFD, 0)
	check(t, err)
	p := d.process()
	d.wants(p, prompt("", -1), "271828")
	d.wants(p, prompt("", -1), "271828")
	d.refuses(p, prompt("wrong PIN", -1), hsm.ErrPINIncorrect, "wrong PIN")
	d.refuses(p, prompt("", -1), hsm.ErrPINIncorrect, "refused before")
	q := d.process()
	q.o.Descriptors = false // a process that may not read descriptors
	if _, err := q.PIN(t.Context(), prompt("", -1)); !errors.Is(err, hsm.ErrNoTerminal) ||
		strings.Contains(err.Error(), "fd:") {
		t.Error(err)
	}
}

// TestNotPrivate: what others could read or write, or could put in place of the
// user's file, is not read.
func TestNotPrivate(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(d *desk) error
		words string
	}{
		"missing":   {func(d *desk) error { return os.Remove(d.file) }, "no such file"},
		"readable":  {func(d *desk) error { return os.Chmod(d.file, 0o640) }, "mode 0640"},
		"writable":  {func(d *desk) error { return os.Chmod(d.file, 0o602) }, "mode 0602"},
		"program":   {func(d *desk) error { return os.Chmod(d.file, 0o700) }, "mode 0700"},
		"directory": {func(d *desk) error { return errors.Join(os.Remove(d.file), os.Mkdir(d.file, 0o700)) }, "not a regular file"},
		"link": {func(d *desk) error {
			return errors.Join(os.Rename(d.file, d.file+"2"), os.Symlink(d.file+"2", d.file))
		}, "symbolic link"},
		"empty": {func(d *desk) error { return os.WriteFile(d.file, []byte("\n271828\n"), 0o600) }, "it is empty"},
		"long":  {func(d *desk) error { return os.WriteFile(d.file, make([]byte, 5000), 0o600) }, "longer than"},
		"foreign": {func(d *desk) error {
			if os.Geteuid() != 0 {
				return os.Chmod(d.file, 0o640) // only root can give files away
			}
			return os.Chown(d.file, 65534, 65534)
		}, "not private"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, "271828")
			check(t, c.spoil(d))
			_, err := d.process().PIN(t.Context(), prompt("", -1))
			if !errors.Is(err, hsm.ErrNoTerminal) || errors.Is(err, hsm.ErrPINInvalid) ||
				!strings.Contains(err.Error(), c.words) {
				t.Errorf("%v", err)
			}
			d.who.nobody = false
			d.wants(d.process(), prompt("", -1), "typed")
		})
	}
}

// TestLockingToken: with a wrong PIN in the source a token loses one try, however
// often it is used.
func TestLockingToken(t *testing.T) {
	fake := hsmtest.NewFake(hsm.SchemePKCS11)
	token := fake.Add(hsmtest.FakeOptions{Label: "prod", PIN: "314159"})
	tok, err := fake.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "prod"})
	check(t, err)
	info, err := tok.Info(t.Context())
	check(t, err)
	d := newDesk(t, "271828")
	for range 5 {
		p := New(Options{
			Entries: entries(t, "[{token: 'pkcs11:serial="+info.Serial+"', source: '"+d.source+"'}]"),
			State:   filepath.Join(d.dir, "state"), Getenv: os.Getenv,
		})
		if err := tok.Unlock(t.Context(), p.Before(d.who.ask)); err == nil {
			t.Fatal("unlocked")
		}
	}
	if left := token.Tries(); left != 2 {
		t.Errorf("%d tries left of 3", left)
	}
}

// TestAtOnce: many processes that start together with a wrong PIN spend one try,
// on a token that tells nothing of its counter.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "271828")
		var tries atomic.Int32
		var all sync.WaitGroup
		start := make(chan struct{})
		for range 8 {
			p := d.process()
			all.Go(func() {
				<-start
				err := hsm.AskPIN(t.Context(), p, hsm.UserPIN,
					func() (hsm.TokenInfo, error) { return prompt("", -1).Token, nil },
					func(*hsm.Secret) error {
						tries.Add(1)
						time.Sleep(5 * lockRetry) // a chance for the others
						return &hsm.PINError{Kind: hsm.UserPIN, Retries: -1}
					})
				if !errors.Is(err, hsm.ErrPINIncorrect) {
					t.Errorf("unlocked: %v", err)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
		if n := tries.Load(); n != 1 {
			t.Errorf("%d tries spent", n)
		}
	})
}

// TestTurns: the next process waits for the verdict on the answer, or until it
// gives up, and is let in when the first is done.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "271828")
		p, q := d.process(), d.process()
		d.wants(p, prompt("", -1), "271828")
		ctx, cancel := context.WithTimeout(t.Context(), 5*lockRetry)
		defer cancel()
		if s, err := q.PIN(ctx, prompt("", -1)); s != nil || err == nil {
			t.Errorf("answered before the verdict: %v", err)
		}
		d.wants(p, prompt("", -1), "271828") // the first goes on
		check(t, p.Close())
		d.wants(q, prompt("", -1), "271828")
	})
}
