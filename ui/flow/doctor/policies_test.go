package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// broken puts a policy into the server that cannot be read.
func broken(s *flowtest.Server) {
	s.Put("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		flowtest.Object{"metadata": flowtest.Object{"name": revocation.PolicyPrefix + "1"}})
}

// TestPolicies: a broken policy is named, with what mends it, where a credential in the kubeconfig may read it.
func TestPolicies(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	o := &Options{Env: w.Env, Online: true}
	o.defaults()
	look := func() []Check { return policies(t.Context(), o) }
	if all := look(); len(all) > 0 {
		t.Errorf("without a policy: %+v", all)
	}
	broken(w.Server)
	all := look()
	if len(all) != 1 || all[0].ID != "revocation-policies/Prod/EU west" || all[0].State != Warning ||
		!strings.Contains(all[0].Found, revocation.PolicyPrefix+"1") || !strings.Contains(all[0].Fix, "kubehsm revocation set") ||
		all[0].Why == "" || strings.Contains(all[0].Found, "\n") {
		t.Errorf("a broken one: %+v", all)
	}
	asked := len(w.Server.Asked())
	o.Online = false
	if all := look(); len(all) > 0 || len(w.Server.Asked()) > asked {
		t.Errorf("offline: %+v", all)
	}
	o.Online = true
	w.Server.Forbid("list validatingadmissionpolicies", "get validatingadmissionpolicies")
	if all := look(); len(all) > 0 {
		t.Errorf("who may not read it: %+v", all)
	}
	w.Server.Allow("get validatingadmissionpolicies") // as the help desk, who cannot know whether there are more
	if all := look(); len(all) != 1 {
		t.Errorf("who may read those with known names: %+v", all)
	}
	w.Server.Gone()
	if all := look(); len(all) > 0 {
		t.Errorf("out of reach: %+v", all)
	}
}

// TestPoliciesAskNobody: a program that might ask is not started, and no credential goes to a server that is not
// verified.
func TestPoliciesAskNobody(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	broken(w.Server)
	ran := filepath.Join(t.TempDir(), "ran")
	config, err := os.ReadFile(w.Env.Kubeconfig)
	must.OK(t, err)
	for name, c := range map[string]string{
		"another program": strings.ReplaceAll(string(config), "user: {token: secret}",
			`user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: ["`+ran+`"]}}`),
		"not verified": strings.Replace(strings.ReplaceAll(string(config), "https://10.0.0.2:6443", w.Server.URL),
			"cluster: prod,", "cluster: open,", 1),
	} {
		must.OK(t, os.WriteFile(w.Env.Kubeconfig, []byte(c), 0o600))
		o := &Options{Env: w.Env, Online: true}
		o.defaults()
		if all := policies(t.Context(), o); len(all) > 0 || len(w.Server.Asked()) > 0 {
			t.Errorf("%s: %+v, asked for %q", name, all, w.Server.Asked())
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("another program was run")
	}
}

// TestPoliciesByToken: a context of ours looks when its token is unlocked.
func TestPoliciesByToken(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	broken(w.Server)
	w.Enroll("prod-hsm", "jane")
	change, err := contexts.New(w.Env).Set(t.Context(), "prod-hsm", true, false)
	if err == nil {
		err = change.Apply(t.Context())
	}
	must.OK(t, err)
	w.Env.Prompter = hsmtest.NewScript(t) // nobody is asked
	o := &Options{Env: w.Env, Online: true}
	o.defaults()
	config, err := os.ReadFile(w.Env.Kubeconfig)
	if err == nil { // the other context's credential goes
		err = os.WriteFile(w.Env.Kubeconfig, []byte(strings.ReplaceAll(string(config), "token: secret", "")), 0o600)
	}
	must.OK(t, err)
	if all := policies(t.Context(), o); len(all) > 0 {
		t.Errorf("without an agent: %+v", all)
	}
	flowtest.Agent(t, w.Env)
	if all := policies(t.Context(), o); len(all) > 0 || len(w.Server.Asked()) > 0 {
		t.Errorf("with a locked token: %+v, asked for %q", all, w.Server.Asked())
	}
	must.OK(t, (session.Agent{Env: w.Env}).Unlock(t.Context(), "prod-hsm", hsmtest.Typing(t, w.Card.PIN())))
	if all := policies(t.Context(), o); len(all) != 1 || all[0].ID != "revocation-policies/prod-hsm" {
		t.Errorf("with an unlocked token: %+v", all)
	}
}
