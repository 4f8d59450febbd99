package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestLostToken: the help desk revokes a token. None of its certificates writes any more, though its thief has had as many
// as there may be, no key in it gets another one, and the owner's other token goes on.
func TestLostToken(t *testing.T) {
	l := newLab(t, controlplane.Options{})
	l.apply(writers)
	l.start()
	c := newCrowd(l)
	lost, spare := c.onRoster(c.person(1, "lost-0")), c.person(2, "spare")
	spare.user = lost.user
	var gone []holder
	for i := range clusterapi.MaxLive {
		p := *lost
		p.name, p.key = fmt.Sprintf("lost-%d", i), newKey(t)
		p.attested = p.key.Public()
		h, _ := c.enrolled(&p)
		gone = append(gone, h)
	}
	left, _ := c.enrolled(c.onRoster(spare))
	for _, h := range append(gone, left) {
		if err := h.write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	desk, err := l.c.KubeconfigFor("jill", "kubehsm:helpdesk")
	if err != nil {
		t.Fatal(err)
	}
	program, home := buildKubehsm(t), t.TempDir()
	l.quota()
	out, err := l.runAs(desk, home, program, "helpdesk", "revoke", "--token", fmt.Sprint(lost.serial), "--reason", "left on a train", "--yes")
	for _, want := range []string{fmt.Sprintf("retired: token %d", lost.serial), fmt.Sprintf("Certificates revoked: %d.", len(gone)),
		"Not known: certificates of the token that the roster does not have"} {
		if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("no %q, %v:\n%s", want, err, out)
		}
	}
	for i, h := range gone {
		if err := h.write(t.Context()); !revocation.IsRefusal(err) || !strings.Contains(err.Error(), "by jill: left on a train") {
			t.Errorf("certificate %d of the lost token writes: %v", i, err)
		}
	}
	if err := left.write(t.Context()); err != nil {
		t.Errorf("the other token: %v", err)
	}
	if got := l.token(lost).Spec; got.State != clusterapi.Retired || got.Owner != lost.user {
		t.Errorf("the roster has %+v", got)
	}

	again := *lost // `kubehsm join --restart`: another key in the same token
	again.name, again.key = "again", newKey(t)
	again.attested = again.key.Public()
	ticket := again
	ticket.name, ticket.key = "ticket", newKey(t)
	ticket.attested = ticket.key.Public()
	goesOn := *spare
	goesOn.name = "goes-on"
	for _, p := range []*person{&again, c.withTicket(&ticket), c.withCertificate(&goesOn)} {
		if err := c.file(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"again", "ticket"} {
		poll.Until(t, name+" is denied", func() bool { return l.stored().denied[name] != nil })
		if got := condition(l.stored().denied[name]); got.Reason != judge.ReasonToken {
			t.Errorf("%s: %+v", name, got)
		}
	}
	poll.Until(t, "the other token renews", func() bool { return l.stored().issued["goes-on"] != nil })

	out, err = l.runAs(desk, home, program, "roster", "remove", lost.user, "--yes")
	if err != nil || l.token(spare).Spec.State != clusterapi.Retired || !strings.Contains(out, "Tokens changed: 1.") {
		t.Errorf("the owner leaves: %v\n%s", err, out)
	}
}
