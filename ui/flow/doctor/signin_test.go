package doctor

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// TestSignIn: whom the cluster takes the current context, if it is ours, for, or why that cannot be told; nobody is asked.
func TestSignIn(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	o := &Options{Env: w.Env, Online: true}
	o.defaults()
	sees := func(when string, state State, found, fix string) {
		t.Helper()
		all := signIn(t.Context(), o)
		if len(all) != 1 || all[0].ID != "sign-in/prod-hsm" || all[0].State != state ||
			!strings.Contains(all[0].Found, found) || !strings.Contains(all[0].Fix, fix) {
			t.Errorf("%s: %+v", when, all)
		}
	}
	if all := signIn(t.Context(), o); len(all) > 0 {
		t.Errorf("other programs' contexts: %+v", all)
	}
	w.Enroll("prod-hsm", "jane")
	change, err := contexts.New(w.Env).Set(t.Context(), "prod-hsm", true, false)
	if err == nil {
		err = change.Apply(t.Context())
	}
	must.OK(t, err)
	w.Env.Prompter = hsmtest.NewScript(t) // nobody is asked
	sees("without an agent", Unknown, "locked", "kubectl --context prod-hsm auth whoami")
	flowtest.Agent(t, w.Env)
	sees("with a locked token", Unknown, "prod-hsm", "kubectl --context prod-hsm auth whoami")
	must.OK(t, (session.Agent{Env: w.Env}).Unlock(t.Context(), "prod-hsm", hsmtest.Typing(t, w.Card.PIN())))
	sees("admitted", OK, "knows you as jane", "")
	w.Server.Break(http.StatusUnauthorized)
	sees("refused", Failed, "credential not accepted", "get a new one")
	if _, err := (session.Agent{Env: w.Env}).SetConsent(t.Context(), "prod-hsm", consent.Policy{Mode: consent.Always},
		hsmtest.Typing(t, w.Card.PIN())); err != nil {
		t.Fatal(err)
	}
	sees("with a policy that asks about each request", Unknown, "", "kubectl --context prod-hsm auth whoami")
	o.Online = false
	if all := signIn(t.Context(), o); len(all) > 0 {
		t.Errorf("offline: %+v", all)
	}
}
