package enrolling

import (
	"errors"
	"os"
	"os/user"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestNameTemplate(t *testing.T) {
	me, err := user.Current()
	must.OK(t, err)
	host, err := os.Hostname()
	must.OK(t, err)
	host, _, _ = strings.Cut(host, ".")
	tpl := nameTemplate{Token: hsm.TokenInfo{Label: "blue", Serial: "42"}, Context: "prod"}
	for in, want := range map[string]string{
		"jane":                      "jane",
		"":                          "",
		"{login}":                   me.Username,
		"{login}@{host}.example":    me.Username + "@" + host + ".example",
		"card-{serial}-of-{token}!": "card-42-of-blue!",
		"{context}":                 "prod",
		"a}b":                       "a}b",
	} {
		if got, err := tpl.fill("user", in); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{"{", "{login", "{nobody}", "{}", "x{log{in}}"} {
		var e *csr.InputError
		if got, err := tpl.fill("user", bad); !errors.As(err, &e) || e.Field != "user" {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
	var e *csr.InputError
	if _, err := (nameTemplate{}).fill("user", "{serial}"); !errors.As(err, &e) {
		t.Errorf("a token without a serial: %v", err)
	}
}

func TestAltNames(t *testing.T) {
	var o csr.RequestOptions
	a := AltNames{DNS: []string{"a.example"}, Email: []string{"a@b.example"}, IP: []string{"::1", "10.0.0.1"},
		URI: []string{"spiffe://x/y"}}
	if err := a.Into(&o); err != nil || len(o.DNSNames) != 1 || len(o.EmailAddresses) != 1 || len(o.IPAddresses) != 2 ||
		len(o.URIs) != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	if got := strings.Join(a.All(), " "); got != "a.example a@b.example ::1 10.0.0.1 spiffe://x/y" {
		t.Error(got)
	}
	for _, bad := range []AltNames{{IP: []string{"1.2.3"}}, {URI: []string{"/relative"}}, {URI: []string{"%"}}} {
		if err := bad.Into(&csr.RequestOptions{}); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
