//go:build linux && cgo

package card

import (
	"context"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestTouchRenews: with a key that wants a touch each time, and a certificate past two thirds of its life, a sign-in
// asks for one more touch, which renews the certificate. Without that touch kubectl goes on, with the present one.
func TestTouchRenews(t *testing.T) {
	// Developers may file requests in a cluster of their own.
	cluster := controlplane.StartForTest(t, controlplane.Options{})
	p := newPersonAt(t, vcard.Config{Serial: 12345678}, cluster)
	must.OK(t, cluster.Apply(t.Context(), filers))
	p.enrollTouched()
	lab.Approves(t, cluster)
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: p.Home}[k] })
	must.OK(t, err)
	store := enrollment.NewStore(dirs)
	all, err := store.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("%d enrollments, %v", len(all), err)
	}
	e := all[0]
	present := func() *x509.Certificate {
		t.Helper()
		chain, err := store.Certificate(e)
		must.OK(t, err)
		return chain[0]
	}
	aged := func() *x509.Certificate { // seven of ten minutes have gone by
		t.Helper()
		if err := store.Renewals().Save(e.Name, enrollment.Renewal{KeyHash: e.KeyHash, Approver: judge.ReasonTicket,
			Expiration: 10 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		from, to := now.Add(-8*time.Minute), now.Add(2*time.Minute)
		if !expiry.Renews(from, to, now) { // the working day begins before its end
			to = now.Add(40 * time.Second)
		}
		der, err := cluster.SignClient(present().PublicKey, e.User, e.Groups, from, to)
		must.OK(t, err)
		c, err := x509.ParseCertificate(der)
		must.OK(t, err)
		must.OK(t, store.SaveCertificate(e, []*x509.Certificate{c}))
		p.ok(p.Kubehsm(t.Context(), "agent", "stop"))
		return c
	}
	const offer = "to renew the certificate of"
	old := aged()
	s := p.terminal("/bin/sh", "-c", "kubectl get namespaces; echo ended $?")
	s.Answer(pinPrompt, ownPIN)
	p.finger(s) // the agent signs in
	s.WaitFor(offer)
	t.Logf("the offer:\n%s", s.Screen())
	p.finger(s) // the request is signed
	s.WaitFor("ended 0")
	s.Exit()
	deadline, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); present().Equal(old); {
		select {
		case <-tick.C:
		case <-deadline.Done():
			t.Fatal("not renewed")
		}
	}
	if left := time.Until(present().NotAfter); left < 8*time.Minute {
		t.Errorf("the new certificate ends in %s", left)
	}
	p.kubectl("get", "namespaces") // over the connection that is open

	old = aged()
	over, signedIn := make(chan struct{}), false
	p.card.SetTouch(func(_ byte, done <-chan struct{}) bool { // the first touch comes, the second one never does
		if !signedIn {
			signedIn = true
			return true
		}
		select {
		case <-over:
		case <-done:
		}
		return false
	})
	s = p.terminal("/bin/sh", "-c", "kubectl get namespaces; echo ended $?")
	s.Answer(pinPrompt, ownPIN)
	s.WaitFor(offer)
	close(over)
	s.WaitFor("ended 0")
	s.Exit()
	if !present().Equal(old) || !strings.Contains(s.Output(), "default") {
		t.Errorf("without a touch:\n%s", s.Output())
	}
	p.card.SetTouch(p.wait)
}
