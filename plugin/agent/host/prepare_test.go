package host

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/poll"
)

func TestPrepareOnceThenWarm(t *testing.T) {
	r := newRig(t, rigOptions{})
	before := time.Now()
	script := hsmtest.NewScript(t, hsmtest.PIN(pin))
	first := r.mustPrepare(script)
	asked := script.PINs()
	if len(asked) != 1 || asked[0].Purpose.Cluster != "prod" || asked[0].Purpose.Action != "sign in" ||
		asked[0].Purpose.Command != consent.CommandOf(os.Getpid()) { // and not what the client says
		t.Fatalf("%+v", asked)
	}
	if life := first.Expires.Sub(before); life < 4*time.Minute || life > 6*time.Minute {
		t.Fatalf("expires in %s", life)
	}
	if code, body := r.get(first, "/version"); code != 200 || !strings.Contains(body, "gitVersion") {
		t.Fatalf("%d %s", code, body)
	}
	signed := r.token.Signatures()
	r.token.Before(func(_ context.Context, op hsmtest.Op) error { return fmt.Errorf("the token was used: %s", op) })
	c := r.dial()
	for i := range 100 {
		s, err := r.prepare(c, caller(1), nil) // no prompter, and none needed
		check(t, err)
		if !bytes.Equal(s.Certificate, first.Certificate) {
			t.Fatal("another certificate for the same process")
		}
		other, err := r.prepare(c, caller(100+i), nil)
		check(t, err)
		if code, _ := r.get(other, "/version"); code != 200 || bytes.Equal(other.Certificate, first.Certificate) {
			t.Fatal(code)
		}
	}
	if n := r.token.Signatures(); n != signed || n != 1 {
		t.Fatalf("%d signatures", n)
	}
	r.token.Before(nil) // a status asks the token
	if st := r.status(); st.Signatures != 1 || st.Dials != 1 || len(st.Sessions)+st.OtherSessions.Ended != 101 ||
		len(st.Tokens) != 1 ||
		!st.Tokens[0].Unlocked || st.Bridge != r.ep.Address() {
		t.Fatalf("%+v", st)
	}
}

func TestTwentyAtOnceOnePromptOneDial(t *testing.T) {
	r := newRig(t, rigOptions{})
	release, asked := make(chan struct{}), make(chan struct{}, 20)
	p := gate{hsmtest.Typing(t, pin), asked, release}
	var wg sync.WaitGroup
	errs := make(chan error, 20)
	for i := range 20 {
		c := r.dial()
		wg.Go(func() {
			_, err := r.prepare(c, caller(i+1), p)
			errs <- err
		})
	}
	<-asked
	close(release)
	wg.Wait()
	for range 20 {
		check(t, <-errs)
	}
	if len(asked) != 0 || r.token.Signatures() != 1 || r.api.Connections.Load() > 2 { // a second one for reachability
		t.Fatalf("%d more prompts, %d signatures, %d connections", len(asked), r.token.Signatures(), r.api.Connections.Load())
	}
}

// gate holds PIN prompts up.
type gate struct {
	hsm.Prompter
	asked   chan struct{}
	release chan struct{}
}

func (g gate) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	g.asked <- struct{}{}
	select {
	case <-g.release:
		return g.Prompter.PIN(ctx, p)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A no of the first holds for those who waited, and for its own retries; a
// later command is asked again.
func TestCancelHoldsForAll(t *testing.T) {
	r := newRig(t, rigOptions{})
	up := make(chan struct{})
	leader := hsmtest.NewScript(t, hsmtest.Hang(up))
	ctx, ctrlC := context.WithCancel(context.Background())
	results := make(chan error, 10)
	leading := r.dial()
	go func() {
		_, err := leading.Prepare(ctx, client.PrepareRequest{Enrollment: "prod", Purpose: as(caller(1))}, leader)
		results <- err
	}()
	<-up
	nobody := hsmtest.NewScript(t) // any prompt fails the test
	for i := range 9 {
		c := r.dial()
		go func() {
			_, err := r.prepare(c, caller(2+i), nobody)
			results <- err
		}()
	}
	poll.Until(t, "nine wait", func() bool { return goroutines("(*flights).do") == 10 })
	ctrlC()
	for range 10 {
		if err := <-results; !errors.Is(err, hsm.ErrCancelled) && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if _, err := r.prepare(r.dial(), caller(1), nobody); !errors.Is(err, hsm.ErrCancelled) {
		t.Fatalf("the same process was asked again: %v", err)
	}
	if _, err := r.prepare(r.dial(), caller(99), hsmtest.NewScript(t, hsmtest.PIN(pin))); err != nil {
		t.Fatal(err)
	}
	if _, err := r.prepare(r.dial(), caller(1), nobody); err != nil {
		t.Fatalf("still refused after somebody signed in: %v", err)
	}
}

// TestLeaderPassesOn: who has no terminal does not spoil it for who has one, nor does a program
// that ended before its person answered.
func TestLeaderPassesOn(t *testing.T) {
	for _, own := range []error{hsm.ErrNoTerminal, ask.ErrGone} {
		t.Run(own.Error(), func(t *testing.T) {
			r := newRig(t, rigOptions{})
			asked, release := make(chan struct{}, 1), make(chan struct{})
			leader, waiting := r.dial(), r.dial()
			led, waited := make(chan error, 1), make(chan error, 1)
			go func() {
				led <- only(r.prepare(leader, caller(2), gate{ask.Nobody(own), asked, release}))
			}()
			<-asked
			go func() {
				waited <- only(r.prepare(waiting, caller(3), hsmtest.NewScript(t, hsmtest.PIN(pin))))
			}()
			poll.Until(t, "two are there", func() bool { return goroutines("(*flights).do") == 2 })
			close(release)
			if err := <-led; !errors.Is(err, own) {
				t.Error(err)
			}
			check(t, <-waited)
		})
	}
}

func TestWrongPIN(t *testing.T) {
	r := newRig(t, rigOptions{token: hsmtest.FakeOptions{Tries: 8}})
	wrong := hsmtest.NewScript(t, hsmtest.PIN("111111"), hsmtest.PIN("222222"), hsmtest.PIN("333333"))
	_, err := r.prepare(r.dial(), caller(1), wrong)
	if !errors.Is(err, hsm.ErrPINIncorrect) || !strings.Contains(err.Error(), "5 tries left") {
		t.Fatal(err)
	}
	// kubectl runs the plugin again, several times: no try is spent.
	for range 4 {
		if _, again := r.prepare(r.dial(), caller(1), hsmtest.NewScript(t)); !errors.Is(again, hsm.ErrPINIncorrect) {
			t.Fatal(again)
		}
	}
	if n := r.token.Tries(); n != 5 {
		t.Fatalf("%d tries left", n)
	}
	r.mustPrepareAs(caller(2), hsmtest.NewScript(t, hsmtest.PIN("444444"), hsmtest.PIN(pin)))
}

func (r *rig) mustPrepareAs(who bridge.Client, p hsm.Prompter) {
	r.t.Helper()
	_, err := r.prepare(r.dial(), who, p)
	check(r.t, err)
}

// Whatever can be known is said before anybody types a PIN.
func TestNoPINInVain(t *testing.T) {
	for _, c := range []struct {
		name   string
		break_ func(*testing.T, *rig)
		is     error
		hint   string
	}{
		{"not enrolled", func(t *testing.T, r *rig) { check(t, r.store.Delete("prod")) }, enrollment.ErrUnknown, "kubehsm enroll"},
		{"no certificate", func(t *testing.T, r *rig) {
			check(t, os.RemoveAll(r.dirs.State+"/certificates"))
		}, hsm.ErrNoCertificate, "kubehsm enroll"},
		{"expired", func(t *testing.T, r *rig) {
			check(t, r.store.SaveCertificate(r.e, []*x509.Certificate{r.api.Certificate(t, r.slot.Key.Public, "alice",
				-time.Hour)}))
		}, message.ErrCertificateExpired, "kubehsm enroll --name prod"},
		{"server down", func(_ *testing.T, r *rig) { r.api.Close() }, upstream.ErrUnreachable, "VPN"},
		{"token away", func(_ *testing.T, r *rig) { r.token.Unplug() }, hsm.ErrNoToken, "plug it in"},
		{"other key", func(t *testing.T, r *rig) {
			tok, err := r.fake.Open(context.Background(), r.token.Info().URI())
			check(t, err)
			check(t, tok.Delete(context.Background(), r.slot.URI, hsmtest.Typing(t, pin)))
			check(t, tok.Lock())
		}, hsm.ErrNoKey, "make a new key with `kubehsm "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			c.break_(t, r)
			_, err := r.prepare(r.dial(), caller(1), hsmtest.NewScript(t))
			if !errors.Is(err, c.is) || !strings.Contains(hinting.Of(err), c.hint) {
				t.Fatalf("%v (hint: %s)", err, hinting.Of(err))
			}
		})
	}
}

func TestPortTakenIsSaidBeforeThePIN(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	l, err := net.Listen("tcp4", r.ep.Address())
	check(t, err)
	r.serve(Options{})
	_, err = r.prepare(r.dial(), caller(1), hsmtest.NewScript(t))
	if !errors.Is(err, loopback.ErrPortTaken) || !strings.Contains(hinting.Of(err), "ss -ltnp") {
		t.Fatalf("%v (hint: %s)", err, hinting.Of(err))
	}
	if err = r.dial().Unlock(t.Context(), "prod", hsmtest.NewScript(t)); !errors.Is(err, loopback.ErrPortTaken) {
		t.Fatalf("unlock: %v", err)
	}
	if st := r.status(); !strings.Contains(st.BridgeError, r.ep.Address()) {
		t.Fatalf("%+v", st)
	}
	check(t, l.Close())
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
}

// TestAnotherPort: the step that an agent without its port names gives the bridge another one.
func TestAnotherPort(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	l, err := net.Listen("tcp4", r.ep.Address())
	check(t, err)
	defer l.Close()
	r.serve(Options{})
	_, err = r.prepare(r.dial(), caller(1), hsmtest.NewScript(t))
	folder := filepath.Join(r.dirs.State, "bridge")
	if !strings.Contains(hinting.Of(err), "remove "+folder+",") {
		t.Fatalf("%v (hint: %s)", err, hinting.Of(err))
	}
	check(t, os.RemoveAll(folder))
	taken := r.ep.Port
	if r.ep, err = loopback.Setup(r.dirs); err != nil || r.ep.Port == taken {
		t.Fatalf("port %d, was %d: %v", r.ep.Port, taken, err)
	}
	if code, body := r.get(r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin))), "/version"); code != 200 {
		t.Error(code, body)
	}
}

func TestCertificateOfAnotherCluster(t *testing.T) {
	for _, strict := range []bool{false, true} {
		r := newRig(t, rigOptions{api: bridgetest.Options{Strict: strict}})
		other := bridgetest.New(t, bridgetest.Options{})
		check(t, r.store.SaveCertificate(r.e, []*x509.Certificate{other.Certificate(t, r.slot.Key.Public, "alice",
			time.Hour)}))
		_, err := r.prepare(r.dial(), caller(1), hsmtest.NewScript(t, hsmtest.PIN(pin)))
		if !errors.Is(err, message.ErrRejected) || !strings.Contains(err.Error(), "alice") ||
			!strings.Contains(hinting.Of(err), "kubehsm enroll --name prod") {
			t.Fatalf("strict=%v: %v (hint: %s)", strict, err, hinting.Of(err))
		}
		if n := r.token.Signatures(); n != 1 {
			t.Fatalf("strict=%v: %d signatures", strict, n)
		}
		// A good one heals it without a restart.
		check(t, r.store.SaveCertificate(r.e, []*x509.Certificate{r.api.Certificate(t, r.slot.Key.Public, "alice",
			time.Hour)}))
		if code, _ := r.get(r.mustPrepare(nil), "/version"); code != 200 {
			t.Fatal(code)
		}
	}
}

// The API server rejects a certificate that it had accepted: the client gets
// its 401, and the next prepare says why.
func TestRejectedLater(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.api.Reject.Store(true)
	if code, _ := r.get(s, "/api"); code != 401 {
		t.Fatal(code)
	}
	if _, err := r.prepare(r.dial(), caller(1), nil); !errors.Is(err, message.ErrRejected) {
		t.Fatal(err)
	}
	if st := r.status(); !st.Upstreams[0].Rejected || !strings.Contains(st.Upstreams[0].LastError, "401") {
		t.Fatalf("%+v", st.Upstreams)
	}
	r.api.Reject.Store(false)
	r.mustPrepare(nil)
	// One that is not about the certificate costs no signature.
	signed := r.token.Signatures()
	r.api.Reject.Store(true)
	r.get(s, "/apis/aggregated")
	r.api.Reject.Store(false)
	r.mustPrepare(nil)
	if n := r.token.Signatures() - signed; n != 0 {
		t.Fatalf("%d signatures", n)
	}
}

func TestTouchIsShownAndTakenDown(t *testing.T) {
	r := newRig(t, rigOptions{token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways}})
	script := hsmtest.NewScript(t, hsmtest.PIN(pin))
	c := r.dial()
	result := make(chan error, 1)
	go func() {
		_, err := r.prepare(c, caller(1), script)
		result <- err
	}()
	poll.Until(t, "a touch is asked for", func() bool { return script.Waiting() == 1 })
	r.token.Touch()
	check(t, <-result)
	if script.Waiting() != 0 {
		t.Fatal("the touch line stays")
	}
	if p := script.Prompts()[1].Touch; p == nil || p.Purpose.Cluster != "prod" {
		t.Fatalf("%+v", script.Prompts())
	}
}

func TestTokenPulled(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.token.Unplug()
	if code, _ := r.get(s, "/version"); code != 200 { // the connection stands until it is needed anew
		t.Fatal(code)
	}
	r.disconnected()
	if _, err := r.prepare(r.dial(), caller(1), hsmtest.NewScript(t)); !errors.Is(err, hsm.ErrNoToken) {
		t.Fatal(err)
	}
	r.token.Plug()
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
}

func TestChangedEnrollment(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	sees, _, _ := r.watch(s)
	// A renewed certificate leaves the watch alone.
	check(t, r.store.SaveCertificate(r.e, []*x509.Certificate{r.api.Certificate(t, r.slot.Key.Public, "alice2",
		time.Hour)}))
	if code, body := r.get(r.mustPrepare(nil), "/who"); code != 418 || !strings.Contains(body, "alice2") {
		t.Fatalf("%d %s", code, body)
	}
	sees("still here")
	// Another server cuts it.
	other := bridgetest.New(t, bridgetest.Options{})
	r.e.Cluster = cluster.Cluster{Server: other.URL, CAData: other.CAPEM}
	r.e = r.save(r.e)
	check(t, r.store.SaveCertificate(r.e, []*x509.Certificate{other.Certificate(t, r.slot.Key.Public, "alice3",
		time.Hour)}))
	if code, body := r.get(r.mustPrepare(nil), "/who"); code != 418 || !strings.Contains(body, "alice3") {
		t.Fatalf("%d %s", code, body)
	}
	if code, _ := r.get(s, "/version"); code != 401 {
		t.Fatalf("the old session reaches the new server: %d", code)
	}
}

// TestTouchThatNobodyMakes: the API server waits half a minute for a signature;
// a token that waits for its touch without end is told from a server that cannot
// be reached.
func TestTouchThatNobodyMakes(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{idle: true, token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways}})
	r.serve(Options{handshake: 2 * time.Second})
	script := hsmtest.NewScript(t, hsmtest.PIN(pin))
	_, err := r.prepare(r.dial(), caller(1), script)
	if !errors.Is(err, hsm.ErrTouchTimeout) || errors.Is(err, upstream.ErrUnreachable) ||
		!strings.Contains(hinting.Of(err), "while it blinks") {
		t.Fatalf("%v (%s)", err, hinting.Of(err))
	}
	if n := script.Waiting(); n != 0 {
		t.Errorf("%d touch lines are still up", n)
	}
	again := hsmtest.NewScript(t)
	if _, err := r.prepare(r.dial(), caller(1), again); !errors.Is(err, hsm.ErrTouchTimeout) || len(again.Prompts()) != 0 {
		t.Fatalf("the same command was asked again: %v", err)
	}
}

// TestSlowSignature: a signature that takes too long without a touch is told as
// what it is.
func TestSlowSignature(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{idle: true})
	r.serve(Options{handshake: 2 * time.Second})
	r.token.Before(func(ctx context.Context, op hsmtest.Op) error {
		if op == hsmtest.OpSign {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	_, err := r.prepare(r.dial(), caller(1), hsmtest.NewScript(t, hsmtest.PIN(pin)))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, upstream.ErrUnreachable) ||
		!strings.Contains(err.Error(), "did not sign in time") {
		t.Fatal(err)
	}
}

// TestNetworkIsBack: a program that was told that the server cannot be reached is served
// as soon as it can be.
func TestNetworkIsBack(t *testing.T) {
	r := newRig(t, rigOptions{})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	check(t, l.Close())
	server := strings.TrimPrefix(r.e.Cluster.Server, "https://")
	r.e.Cluster.Server = "https://" + l.Addr().String()
	r.e = r.save(r.e)
	for range 2 {
		if _, err := r.prepare(r.dial(), caller(1), hsmtest.NewScript(t)); !errors.Is(err, upstream.ErrUnreachable) {
			t.Fatalf("without a server: %v", err)
		}
	}
	if l, err = net.Listen("tcp4", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp4", server)
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in) }() // either end may leave
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
}

// look asks for a session that takes nobody, and returns why there is none, "" if there is one.
func (r *rig) look() string {
	r.t.Helper()
	_, err := r.dial().Prepare(r.t.Context(), client.PrepareRequest{Enrollment: "prod", Purpose: as(caller(1)), Look: true},
		hsmtest.NewScript(r.t))
	if err == nil {
		return ""
	}
	if !errors.Is(err, hsm.ErrPINRequired) {
		r.t.Errorf("a look that takes somebody: %v", err)
	}
	return err.Error()
}

// toucher touches the token when it waits for that.
type toucher struct {
	hsm.Prompter
	token *hsmtest.FakeToken
}

func (p toucher) Touch(context.Context, hsm.TouchPrompt) (done func()) {
	go p.token.Touch()
	return func() {}
}

// TestLookAsksNobody: a look takes no PIN, no touch and no yes, is not on record where it would, and does not
// have the next command refused. With a token that is unlocked it works.
func TestLookAsksNobody(t *testing.T) {
	for name, c := range map[string]struct {
		token            hsmtest.FakeOptions
		policy           consent.Mode
		locked, unlocked string // why there is no session
		signs            bool   // a session is there once somebody has signed in
	}{
		"plain": {locked: "the token of prod is locked", signs: true},
		"touch": {token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways},
			locked: "the token of prod is locked", unlocked: "the key of prod needs a touch", signs: true},
		"cached touch": {token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchCached},
			locked: "the token of prod is locked", unlocked: "the key of prod needs a touch", signs: true},
		"PIN each time": {token: hsmtest.FakeOptions{PINPolicy: hsm.PINAlways},
			locked: "the key of prod needs its PIN each time", unlocked: "the key of prod needs its PIN each time", signs: true},
		"consent": {policy: consent.Always,
			locked: "prod requires consent for reads", unlocked: "prod requires consent for reads"},
		"writes": {policy: consent.Writes, locked: "the token of prod is locked", signs: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{token: c.token, idle: true})
			if c.policy != "" {
				r.policy(consent.Policy{Mode: c.policy})
			}
			r.serve(Options{})
			if got := r.look(); got != c.locked {
				t.Errorf("locked: %q", got)
			}
			check(t, r.dial().Unlock(t.Context(), "prod", hsmtest.NewScript(t, hsmtest.PIN(pin))))
			if got := r.look(); got != c.unlocked {
				t.Errorf("unlocked: %q", got)
			}
			if n := r.token.Signatures(); c.unlocked != "" && n != 0 {
				t.Errorf("%d signatures", n)
			}
			if _, lines := r.records(); slices.ContainsFunc(lines, func(l string) bool {
				return strings.HasPrefix(l, "session ") && l != "session granted"
			}) {
				t.Errorf("on record: %q", lines)
			}
			if !c.signs {
				return
			}
			r.mustPrepare(toucher{hsmtest.Typing(t, pin).Lax(), r.token})
			if got := r.look(); got != "" {
				t.Errorf("signed in: %q", got)
			}
		})
	}
}

// TestLookWhileSomebodyIsAsked: a no of whoever is asked meanwhile is no answer to a look.
func TestLookWhileSomebodyIsAsked(t *testing.T) {
	r := newRig(t, rigOptions{})
	up := make(chan struct{})
	c := r.dial()
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := c.Prepare(ctx, client.PrepareRequest{Enrollment: "prod", Purpose: as(caller(1))},
			hsmtest.NewScript(t, hsmtest.Hang(up)))
		first <- err
	}()
	<-up
	looked := make(chan string, 1)
	go func() { looked <- r.look() }()
	poll.Until(t, "the look waits", func() bool {
		n := 0
		r.mustAgent(func(a *agent) {
			a.signIns.flights.mu.Lock()
			defer a.signIns.flights.mu.Unlock()
			n = a.signIns.flights.running["prod"].waiting
		})
		return n == 1
	})
	cancel()
	<-first
	if got := <-looked; got != "the token of prod is locked" {
		t.Errorf("%q", got)
	}
}
