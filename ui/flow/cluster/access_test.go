package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// enrolled is a world whose agent runs, with the enrollment prod-hsm, whose context is
// the current one.
func enrolled(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane", "dev")
	w.Enroll("prod-hsm", "jane", "dev")
	flowtest.Agent(t, w.Env)
	change, err := contexts.New(w.Env).Set(t.Context(), "prod-hsm", true, false)
	if err == nil {
		err = change.Apply(t.Context())
	}
	must.OK(t, err)
	return w
}

// plain is a world whose current context signs in by a bearer token.
func plain(t testing.TB) *flowtest.World {
	return flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane", "dev")
}

// whoAmI asks a cluster who the caller is.
func whoAmI(ctx context.Context, client *csr.Client, err error) error {
	if err != nil {
		return err
	}
	me, err := client.Rights().WhoAmI(ctx)
	if err == nil && me.User != "jane" {
		err = fmt.Errorf("the user is %s", me.User)
	}
	return err
}

// TestAccess: clusters are reached as their contexts say. A context of ours needs the token,
// the agent and its bridge.
func TestAccess(t *testing.T) {
	pin := []hsmtest.Answer{hsmtest.PIN("123456")}
	signedIn := []string{"forbidden: get /version", "500: get /version"} // an answer of the cluster is enough
	for _, c := range []flowtest.UseCase{
		{Name: "a context of ours", World: enrolled, Answers: pin, Passes: signedIn,
			Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
				w.Env.Prompter = p
				client, err := cluster.Access{Env: w.Env}.Client(ctx, "")
				return whoAmI(ctx, client, err)
			}},
		{Name: "another context", World: plain,
			Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
				client, err := cluster.Access{Env: w.Env}.Client(ctx, "")
				return whoAmI(ctx, client, err)
			}},
		{Name: "bootstrap tokens", World: plain,
			Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
				client, err := cluster.Access{Env: w.Env}.BootstrapTokens(ctx, "")
				if err == nil {
					_, _, err = client.List(ctx)
				}
				return err
			}},
	} {
		c.Try(t)
	}
}

// TestConsent: where the policy needs a yes for each request, the person is asked about the
// program's own requests too. Without a yes nothing reaches the cluster.
func TestConsent(t *testing.T) {
	for _, c := range []struct {
		answer hsmtest.Answer
		want   error
	}{{hsmtest.Yes(), nil}, {hsmtest.No(), apierror.ErrWithheld}, {hsmtest.Cancel(), apierror.ErrWithheld},
		{hsmtest.Fail(ask.TimedOut(time.Minute)), apierror.ErrWithheld}} {
		w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
		en := w.Enroll("prod-hsm", "jane")
		en.Policy = consent.Always
		must.OK(t, w.Env.Enrollments().Save(w.Signed(en)))
		flowtest.Agent(t, w.Env)
		client, err := cluster.Access{Env: w.Env}.ThroughBridge(t.Context(), "prod-hsm",
			hsmtest.NewScript(t, hsmtest.PIN("123456"), c.answer))
		if err := whoAmI(t.Context(), client, err); !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
		if asked := slices.Contains(w.Server.Asked(), "create selfsubjectreviews"); asked != (c.want == nil) {
			t.Errorf("%v, and the cluster was asked for %q", c.want, w.Server.Asked())
		}
	}
}
