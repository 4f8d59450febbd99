package consent

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestPolicies(t *testing.T) {
	const pod = "/api/v1/namespaces/n/pods/p"
	body, upgrade, as := true, http.Header{"Connection": {"Upgrade"},
		"Upgrade": {"websocket"}}, http.Header{"Impersonate-User": {"a"}}
	for _, tc := range []struct {
		method, target string
		h              http.Header
		body           bool
		writes, always bool
	}{
		{"GET", pod, nil, false, false, true},
		{"GET", pod + "/log?follow=true", nil, false, false, true},
		{"GET", "/api/v1/pods?watch=1", nil, false, false, true},
		{"GET", "/api/v1/watch/pods", nil, false, false, true},
		{"GET", "/api", nil, false, false, false},
		{"GET", "/apis/apps/v1", nil, false, false, false},
		{"GET", "/openapi/v3/apis/apps/v1?hash=x", nil, false, false, false},
		{"GET", "/version", nil, false, false, false},
		{"GET", "/healthz", nil, false, false, false},
		{"GET", "/livez/ping", nil, false, false, false},
		{"GET", "/readyz?verbose", nil, false, false, false},
		{"GET", "/metrics", nil, false, false, true},
		{"HEAD", pod, nil, false, false, true},
		{"OPTIONS", pod, nil, false, true, true},
		{"POST", "/api/v1/namespaces/n/pods", nil, body, true, true},
		{"POST", "/version", nil, body, true, true},
		{"PUT", pod, nil, body, true, true},
		{"PATCH", pod, nil, body, true, true},
		{"DELETE", pod, nil, false, true, true},
		{"DELETE", "/api/v1/namespaces/n/pods", nil, false, true, true},
		// What connects does so by any method.
		{"GET", pod + "/exec?command=sh", nil, false, true, true},
		{"GET", pod + "/exec/", nil, false, true, true},
		{"GET", pod + "/attach", nil, false, true, true},
		{"GET", pod + "/portforward", nil, false, true, true},
		{"GET", pod + "/proxy", nil, false, true, true},
		{"GET", pod + "/proxy/metrics", nil, false, true, true},
		{"GET", "/api/v1/nodes/n/proxy/exec/n/p/c", nil, false, true, true},
		{"GET", "/api/v1/namespaces/n/services/s/proxy/x", nil, false, true, true},
		{"GET", "/apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachineinstances/v/console", upgrade, false, true, true},
		{"GET", pod, upgrade, false, true, true},
		{"GET", pod, http.Header{"Upgrade": {"SPDY/3.1"}}, false, true, true},
		{"GET", "/", upgrade, false, true, true},
		// Impersonation, whatever it is for.
		{"GET", pod, as, false, true, true},
		{"GET", "/version", as, false, true, true},
		{"GET", pod, http.Header{"Impersonate-Extra-Scopes": {"x"}}, false, true, true},
		{"GET", pod, http.Header{"impersonate-user": {"x"}}, false, true, true},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", as, body, true, true},
		// Reviews of oneself are questions; those of others are not.
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", nil, body, false, true},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", nil, body, false, true},
		{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", nil, body, false, true},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", nil, body, true, true},
		{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", nil, body, true, true},
		{"POST", "/apis/evil.example/v1/selfsubjectreviews", nil, body, true, true},
		{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews/x", nil, body, true, true},
		// Dry runs, where the API server is bound to take them for such.
		{"POST", "/api/v1/namespaces/n/pods?dryRun=All", nil, body, false, true},
		{"PATCH", pod + "?dryRun=All&fieldManager=x", nil, body, false, true},
		{"PUT", pod + "/status?dryRun=All", nil, body, false, true},
		{"POST", pod + "/eviction?dryRun=All", nil, body, false, true},
		{"DELETE", pod + "?dryRun=All", nil, false, false, true},
		{"PATCH", "/apis/apps/v1/namespaces/n/deployments/d?dryRun=All", nil, body, false, true},
		{"PATCH", "/apis/example.org/v1/namespaces/n/widgets/w?dryRun=All", nil, body, true, true}, // an extension may act
		{"DELETE", "/apis/metrics.k8s.io/v1/nodes/n?dryRun=All", nil, false, true, true},
		{"DELETE", pod + "?dryRun=All", nil, body, true, true}, // the options in the body count, not the query's
		{"DELETE", "/api/v1/namespaces/n/pods?dryRun=All", nil, body, true, true},
		{"PATCH", pod + "?dryRun=All&dryRun=All", nil, body, false, true},
		{"PATCH", pod + "?dryRun=All&dryRun=None", nil, body, true, true},
		{"PATCH", pod + "?dryRun=&dryRun=All", nil, body, true, true},
		{"PATCH", pod + "?dryrun=All", nil, body, true, true},
		{"PATCH", pod + "?dryRun=all", nil, body, true, true},
		{"PATCH", pod + "?a=1;dryRun=All", nil, body, true, true},
		{"PATCH", pod + "?dryRun=All&x=%zz", nil, body, true, true},
		{"PATCH", pod + "?dryRun%3DAll", nil, body, true, true},
		{"POST", pod + "/exec?dryRun=All", nil, false, true, true},
		{"POST", "/api/v1/namespaces/n/serviceaccounts/s/token?dryRun=All", nil, body, true, true}, // mints one all the same
		{"POST", "/api/v1/namespaces/n/pods?dryRun=All", as, body, true, true},
		{"POST", "/version?dryRun=All", nil, body, true, true},
	} {
		r := Parse(tc.method, tc.target, tc.h, tc.body)
		for p, want := range map[Mode]bool{"": false, Session: false, Writes: tc.writes, Always: tc.always} {
			if got, err := (Policy{Mode: p}).Needs(r); got != want || err != nil {
				t.Errorf("%s %s %v (body %v) with policy %q: asks %v, want %v (%v)", tc.method, tc.target, tc.h, tc.body, p, got,
					want, err)
			}
		}
	}
	if needs, err := (Policy{Mode: "unknown"}).Needs(Parse("GET", pod, nil, false)); !needs || err != nil {
		t.Error("an unknown policy does not ask")
	}
}

func TestRules(t *testing.T) {
	p := Policy{Mode: Rules, Rules: []Rule{
		{Verbs: []string{"delete"}, Namespaces: []string{"prod"}},
		{Verbs: []string{"get", "list", "watch"}, Resources: []string{"secrets"}},
		{Verbs: []string{"create"}, Resources: []string{"pods/exec", "deployments.apps"}},
		{Verbs: []string{"patch"}, Resources: []string{"*/scale"}, DryRun: true},
		{Verbs: []string{"impersonate"}},
	}}
	check(t, p.Validate())
	for _, tc := range []struct {
		method, target string
		want           bool
	}{
		{"DELETE", "/api/v1/namespaces/prod/pods/p", true},
		{"DELETE", "/api/v1/namespaces/prod/pods", true},
		{"DELETE", "/api/v1/namespaces/prod", true},
		{"DELETE", "/api/v1/namespaces/test/pods/p", false},
		{"DELETE", "/api/v1/nodes/n", true}, // names no namespace: may concern them all
		{"DELETE", "/api/v1/namespaces/prod/pods/p?dryRun=All", false},
		{"GET", "/api/v1/secrets", true},
		{"GET", "/api/v1/namespaces/x/secrets/s", true},
		{"PATCH", "/api/v1/namespaces/x/secrets/s?dryRun=All", true}, // the response contains the secret
		{"DELETE", "/api/v1/namespaces/x/secrets?dryRun=All", true},
		{"POST", "/api/v1/namespaces/x/secrets?dryRun=All", false},
		{"PATCH", "/api/v1/namespaces/x/secrets/s", false},
		{"GET", "/api/v1/namespaces/x/pods", false},
		{"GET", "/api/v1/namespaces/x/pods/p/exec", true}, // a connection is a create, by any method
		{"POST", "/api/v1/namespaces/x/pods/p/exec", true},
		{"GET", "/api/v1/namespaces/x/pods/p/attach", false},
		{"POST", "/apis/apps/v1/namespaces/x/deployments", true},
		{"POST", "/apis/other/v1/namespaces/x/deployments", false},
		{"POST", "/api/v1/namespaces/x/pods", false},
		{"PATCH", "/apis/apps/v1/namespaces/x/deployments/d/scale?dryRun=All", true},
		{"PATCH", "/apis/apps/v1/namespaces/x/deployments/d", false},
		{"POST", "/unknown", true},
		{"GET", "/version", false},
	} {
		if got, err := p.Needs(Parse(tc.method, tc.target, nil, false)); got != tc.want || err != nil {
			t.Errorf("%s %s: asks %v (%v)", tc.method, tc.target, got, err)
		}
	}
	for target, method := range map[string]string{"/version": "GET", "/api/v1/namespaces/x/pods?dryRun=All": "POST"} {
		if needs, err := p.Needs(Parse(method, target, http.Header{"Impersonate-User": {"a"}}, false)); !needs || err != nil {
			t.Error("impersonation is not asked for")
		}
	}
}

func TestValidate(t *testing.T) {
	for _, p := range []Policy{
		{Mode: "other"}, {Mode: Rules}, {Mode: Writes, Rules: []Rule{{}}}, {Rules: []Rule{{}}},
		{Mode: Rules, Rules: []Rule{{Verbs: []string{"destroy"}}}}, {Mode: Rules, Rules: []Rule{{Resources: []string{"Pods"}}}},
		{Mode: Rules, Rules: []Rule{{Resources: []string{"po*"}}}}, {Mode: Rules, Rules: []Rule{{Resources: []string{""}}}},
		{Mode: Rules, Rules: []Rule{{Namespaces: []string{"a/b"}}}}, {Mode: Rules, Rules: []Rule{{Namespaces: []string{"a b"}}}},
		{Mode: Rules, Rules: make([]Rule, maxRules+1)},
	} {
		if p.Validate() == nil {
			t.Errorf("%+v is valid", p)
		}
	}
	for _, m := range []Mode{"", Session, Writes, Always} {
		if err := (Policy{Mode: m}).Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestStatements(t *testing.T) {
	text, err := Statement{Time: time.Unix(1, 2345), Enrollment: "prod",
		Request: Parse("DELETE", "/api/v1/nodes/n", nil, false)}.Text()
	check(t, err)
	s, err := Read(text)
	if err != nil || s.Enrollment != "prod" || s.Request.String() != `delete nodes "n"` || s.Nonce == "" {
		t.Fatalf("%+v %v", s, err)
	}
	if again, err := s.Text(); err != nil || again != text {
		t.Errorf("%q, then %q (%v)", text, again, err)
	}
	ec, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ec384, err2 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	rsaKey, err3 := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, err4 := ed25519.GenerateKey(rand.Reader)
	check(t, errors.Join(err1, err2, err3, err4))
	for _, key := range []crypto.Signer{ec, ec384, rsaKey, ed} {
		sig, err := Sign(key, text)
		check(t, err)
		if err := Verify(key.Public(), text, sig); err != nil {
			t.Errorf("%T: %v", key, err)
		}
		if Verify(key.Public(), strings.Replace(text, "prod", "test", 1), sig) == nil {
			t.Errorf("%T: a changed statement verifies", key)
		}
	}
	other, err := Sign(ec, "something else")
	if err != nil || !errors.Is(Verify(ec.Public(), "something else", other), ErrSignature) {
		t.Error("what is no statement verifies")
	}
	if _, err := Read("x"); err == nil {
		t.Error("what is no statement can be read")
	}
	if b, err := json.Marshal(s.Request); err != nil || string(b) != `{"verb":"delete","resource":"nodes","name":"n"}` {
		t.Errorf("%s %v", b, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"/api/v1/pods", "/apis/apps/v1/namespaces/a/deployments/b/scale?dryRun=All",
		"/api/v1/namespaces/a/pods/b/proxy/../x", "//%2e%2e/"} {
		f.Add("GET", s, "")
		f.Add("DELETE", s, "jane")
	}
	f.Fuzz(func(t *testing.T, method, target, as string) {
		h := http.Header{}
		if as != "" {
			h["Impersonate-User"] = []string{as}
		}
		r := Parse(method, target, h, false)
		_ = r.String()
		needs, err := Policy{Mode: Writes}.Needs(r)
		if method != "GET" && method != "HEAD" && err == nil && !needs && !r.DryRun && !r.aboutSelf() {
			t.Errorf("%s %s passes", method, target)
		}
		if as != "" && !needs {
			t.Errorf("impersonation passes: %s %s", method, target)
		}
	})
}
