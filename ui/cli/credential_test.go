package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
)

// enrolled puts an enrollment into the store, for the key of slot s if it has one.
func (b *bench) enrolled(name, server string, s hsm.Slot) enrollment.Enrollment {
	b.t.Helper()
	dirs, err := home.FromEnv(func(k string) string { return b.env[k] })
	must.OK(b.t, err)
	e := enrollment.Enrollment{
		Name: name, Cluster: cluster.Cluster{Server: server}, Key: hsm.URI{Scheme: hsm.SchemePKCS11, Token: "trial",
			Object: "prod"},
		KeyHash: strings.Repeat("0", 64), User: "jane", Created: time.Now().UTC(),
	}
	if s.Key != nil {
		e.Key = s.URI
		if e.KeyHash, err = hsm.Fingerprint(s.Key.Public); err != nil {
			b.t.Fatal(err)
		}
	}
	must.OK(b.t, dirs.Prepare())
	if key := b.fake.Key(e.KeyHash); key != nil {
		if e, err = e.SignedBy(key, e.Created.Add(-time.Hour)); err != nil {
			b.t.Fatal(err)
		}
	}
	must.OK(b.t, enrollment.NewStore(dirs).Save(e))
	return e
}

// execInfo is kubectl's request with the exec extension config, JSON.
func execInfo(config string) string {
	return `{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","spec":{"interactive":false,` +
		`"cluster":{"server":"https://127.0.0.1:1/c/prod","config":` + config + `}}}`
}

func TestCredentialRefusals(t *testing.T) {
	b := newBench(t)
	b.enrolled("prod", "https://prod.example:6443", hsm.Slot{})
	for _, c := range []struct {
		name, info, args string
		code             int
		words            string
	}{
		{"not called by kubectl", "", "", 1, "KUBERNETES_EXEC_INFO is not set"},
		{"no request, unknown", "", "--enrollment nope", 1, "no such enrollment"},
		{"no request, path as name", "", "--enrollment ../../etc", 1, "not a usable enrollment"},
		{"no request, odd version", "", "--enrollment prod --api-version v2", 2, "--api-version: unsupported exec credential version"},
		{"nonsense", "{", "--enrollment prod", 1, "malformed"},
		{"two enrollments", execInfo(`{"enrollment":"other"}`), "--enrollment prod", 1, `is for the enrollment "prod", its cluster for "other"`},
		{"another server", execInfo(`{"enrollment":"prod","server":"https://evil\u001b[2J"}`), "--enrollment prod", 1, `says https://evil\x1b[2J, but "prod" was enrolled for https://prod.example:6443`},
		{"a cluster elsewhere", strings.Replace(execInfo(`{"enrollment":"prod"}`), "127.0.0.1:1", "evil.example", 1), "--enrollment prod", 1, "leads to https://evil.example/c/prod, not to kubehsm's bridge"},
		{"the bridge is not verified", strings.Replace(execInfo(`null`), `"server"`, `"insecure-skip-tls-verify":true,"server"`, 1), "--enrollment prod", 1, "does not verify kubehsm's bridge"},
		{"another enrollment's address", strings.Replace(execInfo(`null`), "/c/prod", "/c/other", 1), "--enrollment prod", 1, "not to kubehsm's bridge"},
		{"foreign extension", execInfo(`["x"]`), "--enrollment prod", 1, "not kubehsm's"},
		{"no name", execInfo(`{}`), "", 2, "neither the arguments nor the cluster name an enrollment"},
		{"unknown", execInfo(`null`), "--enrollment nope", 1, "no such enrollment"},
		{"path as name", execInfo(`{"enrollment":"../../etc"}`), "", 1, "not a usable enrollment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			b.env["KUBERNETES_EXEC_INFO"] = c.info
			b.fails(c.code, c.words, append([]string{"credential"}, strings.Fields(c.args)...)...)
		})
	}
}

func TestAgentNotRunning(t *testing.T) {
	b := newBench(t)
	if out := b.ok("agent", "status"); !strings.Contains(out, "not running") {
		t.Errorf("%q", out)
	}
	if doc := document(t, b.ok("agent", "status", "-o", "json")); doc["running"] != false || len(doc) != 1 {
		t.Errorf("%v", doc)
	}
	for _, verb := range []string{"lock", "stop"} {
		if code, _, errs := b.run("agent", verb); code != 0 || !strings.Contains(errs, "nothing to do") {
			t.Errorf("agent %s: exit code %d, %q", verb, code, errs)
		}
	}
	b.fails(1, "nothing is enrolled yet", "unlock")
	b.enrolled("a", "https://a.example", hsm.Slot{})
	b.enrolled("b", "https://b.example", hsm.Slot{})
	b.fails(2, "name one of a b", "unlock")
	b.fails(1, "no such enrollment", "unlock", "c")
}
