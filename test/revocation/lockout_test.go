package revocation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// shared is the control plane of the tests that do no harm to it, with its ledger empty.
func shared(t testing.TB) *controlplane.Cluster {
	t.Helper()
	c := controlplane.ForTest(t)
	must.OK(t, c.Apply(t.Context(), everybody))
	clear := func() {
		for _, kind := range []string{"validatingadmissionpolicy", "validatingadmissionpolicybinding"} {
			if _, err := c.Admin(context.WithoutCancel(t.Context()), "", "delete", kind, "-l", revocation.Label); err != nil {
				t.Error(err)
			}
		}
	}
	clear()
	t.Cleanup(clear)
	return c
}

// TestNobodyIsLockedOut: an empty list, and a policy that somebody has broken by hand, stop
// nobody. One that fails closed stops the certificates on its list, and spares everybody else;
// an admin can put it right.
func TestNobodyIsLockedOut(t *testing.T) {
	c := shared(t)
	l := ledger(t, c)
	admin := person{config: configFrom(t, c.AdminKubeconfig()), file: c.AdminKubeconfig()}
	lost, other := someone(t, c, "jane"), someone(t, c, "joe")
	rescuer := someone(t, c, "rescuer", revocation.RecoveryGroup)
	const policy = revocation.PolicyPrefix + "1"
	works := func(when string, all ...person) {
		t.Helper()
		for _, p := range all {
			if err := create(t.Context(), p.config, "works"); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	await := func(what string, p person, is func(error) bool) {
		t.Helper()
		poll.Until(t, what, func() bool { return is(create(t.Context(), p.config, "awaited")) })
	}
	allowed := func(err error) bool { return err == nil }

	shards, err := l.Revoke(t.Context(), time.Now(), lost.entry)
	must.OK(t, err)
	awaitInForce(t, admin.config, shards)
	shards, err = l.Lift(t.Context(), time.Now(), lost.entry.Certificate)
	must.OK(t, err)
	awaitInForce(t, admin.config, shards)
	works("with an empty list", admin, lost, other)

	shards, err = l.Revoke(t.Context(), time.Now(), lost.entry)
	must.OK(t, err)
	awaitInForce(t, admin.config, shards)
	broken := `[{"op":"replace","path":"/spec/validations/0/expression","value":"variables.used[7] == ''"}]`
	_, err = c.Admin(t.Context(), "", "patch", "validatingadmissionpolicy", policy, "--type=json", "-p", broken)
	must.OK(t, err)
	await("the broken policy is passed over", lost, allowed)
	works("with a broken policy", admin, other, rescuer)
	list, err := l.Read(t.Context())
	if must.OK(t, err); list.Err() == nil {
		t.Error("nobody tells of the broken policy")
	}

	_, err = c.Admin(t.Context(), "", "patch", "validatingadmissionpolicy", policy, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/failurePolicy","value":"Fail"}]`)
	must.OK(t, err)
	await("it fails closed", lost, func(err error) bool { return err != nil && !refused(err) })
	works("where it fails closed", admin, other, rescuer)
	shards, err = l.Configure(t.Context(), time.Now(), revocation.Settings{}) // policies judge no policies
	must.OK(t, err)
	awaitInForce(t, rescuer.config, shards)
	works("once it is put right", admin, other)
	if err := create(t.Context(), lost.config, "refused"); !refused(err) {
		t.Errorf("the revoked certificate: %v", err)
	}
}

// TestInterrupted: whichever write of a command is the last that the cluster gets, what was
// revoked stays revoked at every moment, and the same command finishes the work.
func TestInterrupted(t *testing.T) {
	c := shared(t)
	l := ledger(t, c)
	lost, next := someone(t, c, "jane"), someone(t, c, "joe")
	shards, err := l.Revoke(t.Context(), time.Now(), lost.entry)
	must.OK(t, err)
	awaitInForce(t, lost.config, shards)
	errKilled := errors.New("killed")
	many := []revocation.Entry{next.entry}
	for n := range 1200 {
		many = append(many, revocation.Entry{Certificate: fmt.Sprintf("%064x", n), User: strings.Repeat("x", 200),
			Reason: strings.Repeat("y", 200), NotAfter: time.Now().Add(time.Hour)})
	}
	for name, do := range map[string]func(revocation.Ledger) error{
		"revoke": func(l revocation.Ledger) error {
			_, err := l.Revoke(t.Context(), time.Now(), many...)
			return err
		},
		"lift": func(l revocation.Ledger) error {
			_, err := l.Lift(t.Context(), time.Now(), next.entry.Certificate)
			return err
		},
	} {
		killed := l.API.(api)
		left := 0
		killed.before = func() error {
			if left--; left < 0 {
				return errKilled
			}
			return nil
		}
		for writes := 0; ; writes++ {
			left = writes
			err := do(revocation.Ledger{API: killed})
			if rerr := create(t.Context(), lost.config, "refused"); !refused(rerr) {
				t.Errorf("%s, killed after %d writes: %v", name, writes, rerr)
			}
			if err == nil || errors.Is(err, revocation.ErrNotRevoked) {
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		list, err := l.Read(t.Context())
		if must.OK(t, err); list.Err() != nil {
			t.Error(list.Err())
		}
	}
}
