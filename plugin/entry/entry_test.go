package entry

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
)

// request is what a client sends for a cluster; cluster is JSON, "" for none.
func request(t *testing.T, cluster string) execcredential.Request {
	t.Helper()
	if cluster != "" {
		cluster = `,"cluster":` + cluster
	}
	r, err := execcredential.Read(fmt.Sprintf(`{"apiVersion":%q,"kind":"ExecCredential","spec":{"interactive":false%s}}`,
		execcredential.V1, cluster))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestName(t *testing.T) {
	for _, c := range []struct{ argument, cluster, want string }{
		{"prod", "", "prod"}, // a client that tells nothing
		{"prod", `{"config":{"enrollment":"prod"}}`, "prod"},
		{"", `{"config":{"enrollment":"prod"}}`, "prod"},
		{"prod", `{"config":{"enrollment":"dev"}}`, ""},
		{"prod", `{"config":"prod"}`, ""},
		{"", `{"config":{"enrollment":"../prod"}}`, ""},
		{"../prod", "", ""},
		{"", `{"config":{}}`, ""},
		{"", "", ""},
	} {
		got, err := Name(c.argument, request(t, c.cluster))
		if c.want == "" && err == nil || c.want != "" && (err != nil || got != c.want) {
			t.Errorf("%q, %s: %q, %v", c.argument, c.cluster, got, err)
		}
	}
	if _, err := Name("", request(t, "")); !errors.Is(err, ErrUnnamed) || hint.Of(err) == "" {
		t.Errorf("no name: %v", err)
	}
}

func TestCheck(t *testing.T) {
	known := enrollment.Enrollment{Name: "prod", Cluster: cluster.Cluster{Server: "https://prod.example:6443"}}
	for cluster, words := range map[string]string{
		"": "",
		`{"server":"https://127.0.0.1:7443/c/prod"}`:        "",
		`{"server":"https://localhost:7443/c/prod/"}`:       "",
		`{"server":"https://[::1]:7443/c/prod"}`:            "",
		`{"server":"https://127.0.0.1:7443/c/dev"}`:         "not to kubehsm's bridge",
		`{"server":"https://127.0.0.1:7443"}`:               "not to kubehsm's bridge",
		`{"server":"http://127.0.0.1:7443/c/prod"}`:         "not to kubehsm's bridge",
		`{"server":"https://127.0.0.1.example/c/prod"}`:     "not to kubehsm's bridge",
		`{"server":"https://prod.example:6443"}`:            "not to kubehsm's bridge",
		`{"insecure-skip-tls-verify":true}`:                 "does not verify kubehsm's bridge",
		`{"config":{"server":"https://prod.example:6443"}}`: "",
		`{"config":["https://prod.example:6443"]}`:          "is not kubehsm's",
	} {
		err := Check(known, request(t, cluster))
		if words == "" && err != nil || words != "" &&
			(err == nil || !strings.Contains(err.Error(), words) || hint.Of(err) == "") {
			t.Errorf("%s: %v", cluster, err)
		}
	}
	err := Check(known, request(t, `{"config":{"server":"https://other.example"}}`))
	if err == nil || !strings.Contains(err.Error(), "https://other.example") ||
		!strings.Contains(hint.Of(err), "kubehsm kubeconfig refresh prod --server URL") {
		t.Errorf("another server: %v", err)
	}
}
