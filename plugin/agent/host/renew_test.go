package host

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// renewingRig is a rig whose cluster approves by itself.
func renewingRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	o.idle = true
	r := newRig(t, o)
	r.e.Groups = []string{"testers"}
	r.e = r.save(r.e)
	check(t, r.store.Renewals().Save("prod", enrollment.Renewal{KeyHash: r.e.KeyHash, Approver: judge.ReasonTicket}))
	r.api.Approve(t, time.Hour, judge.ReasonRenewal)
	r.serve(Options{})
	return r
}

// present is the certificate in the store.
func (r *rig) present() *x509.Certificate {
	r.t.Helper()
	chain, err := r.store.Certificate(r.e)
	check(r.t, err)
	return chain[0]
}

// renewed has the agent do what it does when the certificate is due, and waits for that.
func (r *rig) renewed() {
	r.t.Helper()
	leaf := r.present()
	now := leaf.NotAfter.Add(-time.Second)
	if !expiry.Renews(leaf.NotBefore, leaf.NotAfter, now) { // the working day begins within that second
		now = leaf.NotAfter.Add(-time.Minute)
	}
	r.mustAgent(func(a *agent) {
		a.targets.follow()
		a.renewals.sweep(context.Background(), now)
		a.renewals.work.Wait()
	})
}

// TestRenewedUnderAWatch: two renewals in a row, while a program watches. The watch goes on, new requests
// use the new certificate, nobody is asked, and a lock still ends everything.
func TestRenewedUnderAWatch(t *testing.T) {
	for name, http1 := range map[string]bool{"HTTP/2": false, "HTTP/1.1": true} {
		t.Run(name, func(t *testing.T) {
			o := rigOptions{}
			o.api.HTTP1 = http1
			r := renewingRig(t, o)
			s := r.mustPrepare(hsmtest.Typing(t, pin))
			sees, lines, _ := r.watch(s)
			sees("before")
			for i := range 2 {
				before, full := r.present(), r.api.Full.Load()
				r.renewed()
				if after := r.present(); after.Equal(before) || len(r.api.Filed()) != i+1 {
					t.Fatalf("renewal %d: %d requests", i, len(r.api.Filed()))
				}
				if n := r.api.Full.Load() - full; n != 1 {
					t.Errorf("%d full handshakes with the new certificate, want 1", n)
				}
				sees("after")
				if code, _ := r.get(s, "/version"); code != http.StatusOK {
					t.Errorf("after renewal %d: %d", i, code)
				}
			}
			if n := len(r.recordsOf(audit.Renewal)); n != 2 {
				t.Errorf("%d renewals on record", n)
			}
			check(t, only(r.dial().Lock(context.Background())))
			if rest, err := io.ReadAll(lines); err == nil && len(rest) == 0 {
				t.Error("the watch ended as if all was well") // the stream is cut
			}
		})
	}
}

// TestLoneWatch: a watch over the connection of an earlier certificate counts as use, and a further renewal
// comes when it is all that is open. A lock cuts it.
func TestLoneWatch(t *testing.T) {
	r := renewingRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.Typing(t, pin))
	_, lines, _ := r.watch(s)
	r.renewed()
	r.mustAgent(func(a *agent) {
		a.targets.current("prod").up.Reset() // the connection is gone, as after an idle time
		held := a.targets.current("prod").held
		if first := a.targets.uses()[held]; !a.targets.uses()[held].After(first) {
			t.Error("the watch does not count as use")
		}
	})
	r.renewed()
	if n := len(r.api.Filed()); n != 2 {
		t.Fatalf("%d renewals under a watch, want 2", n)
	}
	check(t, only(r.dial().Lock(context.Background())))
	if rest, err := io.ReadAll(lines); err == nil && len(rest) == 0 {
		t.Error("the watch ended as if all was well") // the stream is cut
	}
}

// TestLockEndsThePast: a request that was on its way to the upstream of the earlier certificate opens no connection
// after a lock.
func TestLockEndsThePast(t *testing.T) {
	r := renewingRig(t, rigOptions{})
	r.mustPrepare(hsmtest.Typing(t, pin))
	var before *target
	r.mustAgent(func(a *agent) { before = a.targets.current("prod") })
	r.renewed()
	check(t, only(r.dial().Lock(t.Context())))
	signing := func(context.Context) (crypto.Signer, error) { return nil, errors.New("it was asked to sign") }
	if err := before.up.SignIn(t.Context(), signing); !errors.Is(err, upstream.ErrClosed) {
		t.Errorf("after the lock: %v", err)
	}
}

// TestConsentLetsRenew: a policy that asks about every request does not stand in the way, and what the
// agent signs and files is on record.
func TestConsentLetsRenew(t *testing.T) {
	r := renewingRig(t, rigOptions{})
	r.mustPrepare(hsmtest.Typing(t, pin))
	r.policy(consent.Policy{Mode: consent.Always})
	r.mustPrepare(hsmtest.Typing(t, pin))
	r.renewed()
	var signed int
	for _, x := range r.recordsOf(audit.Signature) {
		if x.Reason == "renewal" && x.Outcome == audit.Granted {
			signed++
		}
	}
	if done := r.recordsOf(audit.Renewal); len(r.api.Filed()) != 1 || signed != 1 || len(done) != 1 || done[0].Outcome != audit.Granted {
		t.Errorf("%d requests, %d signatures, on record %+v", len(r.api.Filed()), signed, done)
	}
}

// TestNobodyIsAskedToRenew: nothing is signed with a token that is locked, or with a key that wants a touch or
// its PIN each time.
func TestNobodyIsAskedToRenew(t *testing.T) {
	for name, c := range map[string]struct {
		token  hsmtest.FakeOptions
		locked bool
	}{
		"locked":    {locked: true},
		"a touch":   {token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways}},
		"PIN again": {token: hsmtest.FakeOptions{PINPolicy: hsm.PINAlways}},
	} {
		t.Run(name, func(t *testing.T) {
			r := renewingRig(t, rigOptions{token: c.token})
			r.mustAgent(func(a *agent) { a.renewals.now = func() time.Time { return time.Time{} } }) // too early for offers
			if c.token.TouchPolicy == hsm.TouchAlways {
				r.token.Touch() // for signing in
			}
			r.mustPrepare(hsmtest.Typing(t, pin))
			if c.locked {
				r.mustAgent(func(a *agent) { check(t, a.targets.current("prod").held.Lock("")) })
			}
			signatures := r.token.Signatures()
			r.renewed()
			if n := r.token.Signatures() - signatures; n != 0 || len(r.api.Filed()) != 0 {
				t.Errorf("%d signatures, %d requests", n, len(r.api.Filed()))
			}
		})
	}
}

// bystander is a person at hand who types the PIN, touches the token, and answers offers of renewals by renews.
type bystander struct {
	hsm.Prompter
	token  *hsmtest.FakeToken
	renews bool
	offers []string
}

func (p *bystander) offered(of hsm.Purpose) (offer bool) {
	if offer = strings.Contains(of.Action, "renew"); offer {
		p.offers = append(p.offers, of.Action)
	}
	return offer
}

// Touch implements [hsm.Prompter].
func (p *bystander) Touch(_ context.Context, q hsm.TouchPrompt) func() {
	if !p.offered(q.Purpose) || p.renews {
		p.token.Touch()
	}
	return func() {}
}

// PIN implements [hsm.Prompter].
func (p *bystander) PIN(ctx context.Context, q hsm.PINPrompt) (*hsm.Secret, error) {
	if p.offered(q.Purpose) && !p.renews {
		return nil, hsm.ErrCancelled
	}
	return p.Prompter.PIN(ctx, q)
}

// TestOfferedAtSignIn: a key that takes a person for each use renews with one touch, or PIN, beside a sign-in. The
// connection stays that of the present certificate, under a watch, and the next sign-in uses the new one. Who declines
// or does not answer is signed in as well, and is not asked again soon.
func TestOfferedAtSignIn(t *testing.T) {
	for name, token := range map[string]hsmtest.FakeOptions{
		"touch": {TouchPolicy: hsm.TouchAlways}, "PIN": {PINPolicy: hsm.PINAlways},
	} {
		for _, renews := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", accepted: ", renews), func(t *testing.T) {
				r := renewingRig(t, rigOptions{token: token})
				before := r.present()
				r.mustAgent(func(a *agent) {
					a.renewals.offered = 300 * time.Millisecond // the person lets it pass
					if renews {
						a.renewals.offered = time.Minute
					}
					a.renewals.now = func() time.Time { return before.NotAfter.Add(-time.Second) }
				})
				p := &bystander{Prompter: hsmtest.Typing(t, pin).Lax(), token: r.token, renews: renews}
				s := r.mustPrepare(p)
				r.mustAgent(func(a *agent) { a.renewals.work.Wait(); a.targets.follow() })
				if len(p.offers) != 1 || !strings.Contains(p.offers[0], "renew the certificate of prod until 20") {
					t.Fatalf("offered %q", p.offers)
				}
				if got := !r.present().Equal(before); got != renews || renews != (len(r.api.Filed()) == 1) {
					t.Fatalf("renewed: %t, %d requests", got, len(r.api.Filed()))
				}
				signatures := r.token.Signatures()
				if code, _ := r.get(s, "/version"); code != http.StatusOK || r.token.Signatures() != signatures {
					t.Errorf("after the sign-in: %d, %d signatures", code, r.token.Signatures()-signatures)
				}
				r.mustAgent(func(a *agent) {
					if is := a.targets.current("prod").chain[0]; !is.Equal(before) {
						t.Error("the connection was replaced, which takes a touch")
					}
					a.renewals.sweep(context.Background(), before.NotAfter.Add(-time.Second))
					a.renewals.work.Wait()
					a.targets.current("prod").up.Reset() // the connection ends
					if renews {
						a.renewals.now = func() time.Time { return before.NotBefore } // the next one is young
					}
				})
				r.mustPrepare(p)
				r.mustAgent(func(a *agent) {
					a.renewals.work.Wait()
					if is := a.targets.current("prod").chain[0]; !is.Equal(r.present()) {
						t.Error("the next sign-in did not use the new certificate")
					}
				})
				if len(p.offers) != 1 {
					t.Errorf("offered again: %q", p.offers)
				}
			})
		}
	}
}

// TestNoOffer: nobody is asked to renew where the cluster leaves requests to people, or the certificate is young, or
// nobody was asked to sign in.
func TestNoOffer(t *testing.T) {
	for name, set := range map[string]func(*rig){
		"left to people": func(r *rig) {
			check(r.t, r.store.Renewals().Save("prod", enrollment.Renewal{KeyHash: r.e.KeyHash, Approver: judge.ReasonPerson}))
		},
		"young": func(r *rig) {
			leaf := r.present()
			r.mustAgent(func(a *agent) { a.renewals.now = func() time.Time { return leaf.NotBefore.Add(time.Minute) } })
		},
		"switched off": func(r *rig) { r.mustAgent(func(a *agent) { a.renewals.renewer.Off = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			r := renewingRig(t, rigOptions{token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways}})
			ends := r.present().NotAfter
			r.mustAgent(func(a *agent) { a.renewals.now = func() time.Time { return ends.Add(-time.Second) } })
			set(r)
			p := &bystander{Prompter: hsmtest.Typing(t, pin).Lax(), token: r.token, renews: true}
			r.mustPrepare(p)
			if len(p.offers) != 0 || len(r.api.Filed()) != 0 {
				t.Errorf("offered %q", p.offers)
			}
		})
	}
}

// TestRejectedSuccessor: a certificate that the server does not take leaves the present one in use.
func TestRejectedSuccessor(t *testing.T) {
	r := renewingRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.Typing(t, pin))
	r.api.Approve(t, -time.Second, judge.ReasonRenewal)
	before := r.present()
	r.renewed()
	if !r.present().Equal(before) {
		t.Error("the certificate was replaced by one that has ended")
	}
	if code, _ := r.get(s, "/version"); code != http.StatusOK {
		t.Errorf("the connection: %d", code)
	}
	if known, err := r.store.Renewals().Load(r.e); err != nil || known.Failure == "" {
		t.Errorf("on record: %+v, %v", known, err)
	}
	if all := r.status().Renewals; len(all) != 1 || all[0].Enrollment != "prod" || all[0].Failure == "" {
		t.Errorf("the status has %+v", all)
	}
}
