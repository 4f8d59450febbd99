package consent

import (
	"net/http"
	"strings"
	"testing"
)

// TestLocate holds the parser to the API server's: the facts are those of
// TestGetAPIRequestInfo and TestGetNonAPIRequestInfo in
// k8s.io/apiserver/pkg/endpoints/request v0.37.1.
func TestLocate(t *testing.T) {
	type want struct{ verb, group, namespace, resource, subresource, name string }
	for in, w := range map[[2]string]want{
		{"GET", "/api/v1/namespaces"}:                          {"list", "", "", "namespaces", "", ""},
		{"GET", "/api/v1/namespaces/other"}:                    {"get", "", "other", "namespaces", "", "other"},
		{"GET", "/api/v1/namespaces/other/pods"}:               {"list", "", "other", "pods", "", ""},
		{"GET", "/api/v1/namespaces/other/pods/foo"}:           {"get", "", "other", "pods", "", "foo"},
		{"HEAD", "/api/v1/namespaces/other/pods/foo"}:          {"get", "", "other", "pods", "", "foo"},
		{"GET", "/api/v1/pods"}:                                {"list", "", "", "pods", "", ""},
		{"HEAD", "/api/v1/pods"}:                               {"list", "", "", "pods", "", ""},
		{"GET", "/api/v1/watch/pods"}:                          {"watch", "", "", "pods", "", ""},
		{"GET", "/api/v1/pods?watch=true"}:                     {"watch", "", "", "pods", "", ""},
		{"GET", "/api/v1/pods?watch=false"}:                    {"list", "", "", "pods", "", ""},
		{"GET", "/api/v1/pods?watch"}:                          {"watch", "", "", "pods", "", ""},
		{"GET", "/api/v1/pods?watch=false&watch=true"}:         {"list", "", "", "pods", "", ""},
		{"GET", "/api/v1/watch/namespaces/other/pods"}:         {"watch", "", "other", "pods", "", ""},
		{"GET", "/api/v1/namespaces/other/pods?watch=1"}:       {"watch", "", "other", "pods", "", ""},
		{"GET", "/api/v1/namespaces/other/pods?watch=0"}:       {"list", "", "other", "pods", "", ""},
		{"GET", "/api/v1/namespaces/other/pods/foo/status"}:    {"get", "", "other", "pods", "status", "foo"},
		{"GET", "/api/v1/namespaces/other/pods/foo/proxy/sub"}: {"get", "", "other", "pods", "proxy", "foo"},
		{"PUT", "/api/v1/namespaces/other/finalize"}:           {"update", "", "other", "namespaces", "finalize", "other"},
		{"PUT", "/api/v1/namespaces/other/status"}:             {"update", "", "other", "namespaces", "status", "other"},
		{"PATCH", "/api/v1/namespaces/other/pods/foo"}:         {"patch", "", "other", "pods", "", "foo"},
		{"DELETE", "/api/v1/namespaces/other/pods/foo"}:        {"delete", "", "other", "pods", "", "foo"},
		{"POST", "/api/v1/namespaces/other/pods"}:              {"create", "", "other", "pods", "", ""},
		{"DELETE", "/api/v1/nodes"}:                            {"deletecollection", "", "", "nodes", "", ""},
		{"DELETE", "/api/v1/namespaces"}:                       {"deletecollection", "", "", "namespaces", "", ""},
		{"DELETE", "/api/v1/namespaces/other/pods"}:            {"deletecollection", "", "other", "pods", "", ""},
		{"DELETE", "/apis/apps/v1/namespaces/other/pods"}:      {"deletecollection", "apps", "other", "pods", "", ""},
		{"POST", "/apis/apps/v1beta3/namespaces/other/pods"}:   {"create", "apps", "other", "pods", "", ""},
		{"GET", "/apis/batch/v1/job/foo/scale"}:                {"get", "batch", "", "job", "scale", "foo"},
		{"POST", "/api/v1/namespaces/n/pods/p/exec?command=x"}: {"create", "", "n", "pods", "exec", "p"},
		{"GET", "/api/v1/namespaces/n/pods/p/exec/"}:           {"get", "", "n", "pods", "exec", "p"},
		// Paths without a resource.
		{"GET", "/"}:                     {"get", "", "", "", "", ""},
		{"GET", "/api"}:                  {"get", "", "", "", "", ""},
		{"GET", "/api/version/"}:         {"get", "", "", "", "", ""},
		{"GET", "/apis/group/version/"}:  {"get", "", "", "", "", ""},
		{"GET", "/badprefix/v/resource"}: {"get", "", "", "", "", ""},
		{"GET", "/apis/version/res"}:     {"get", "", "", "", "", ""},
		{"POST", "/API/v1/pods"}:         {"post", "", "", "", "", ""},
	} {
		r := Parse(in[0], in[1], nil, false)
		if got := (want{r.Verb, r.Group, r.Namespace, r.Resource, r.Subresource, r.Name}); got != w {
			t.Errorf("%v: %+v, want %+v", in, got, w)
		}
		if r.Odd != "" {
			t.Errorf("%v: %s", in, r.Odd)
		}
		if (r.Path == "") != (r.Resource != "") && r.Subresource != "proxy" {
			t.Errorf("%v: path %q, resource %q", in, r.Path, r.Resource)
		}
	}
}

// TestOdd: what could be read in another way is not judged at all.
func TestOdd(t *testing.T) {
	for _, in := range [][3]string{
		{"get", "/api/v1/pods"}, {"LINK", "/api/v1/pods"}, {"CONNECT", "/api/v1/pods"}, {"", "/api"},
		{"GET", "//api/v1/pods"}, {"GET", "/api//v1/pods"}, {"GET", "/api/v1/pods//"}, {"GET", "/api/v1/./pods"},
		{"GET", "/api/v1/namespaces/a/../b/pods"}, {"GET", "/api/v1/namespaces/a/%2e%2e/b/pods"}, {"GET", "/api/v1/namespaces/a/%2E./b/pods"},
		{"GET", "/api/v1/namespaces/a%2fpods%2fb%2fexec"}, {"GET", "/api/v1/namespaces/a/pods/b/%65xec%2f"}, {"GET", "/api/v1/pods%2"},
		{"GET", "/api/v1/namespaces/a/pods/b;x/exec"}, {"GET", "/api/v1/namespaces/a/pods/b%3bx"}, {"GET", `/api/v1/namespaces/a\pods`},
		{"GET", "/api/v1/namespaces/a/pods/%252e%252e"}, {"GET", "/api/v1/pods/a%00b"}, {"GET", "/api/v1/pods/a%1b[31m"}, {"GET", "/api/v1/pods/a%e2%80%aeb"},
		{"GET", "/api/v1/pods/a%ff"}, {"GET", "/api/v1/pods/a#b"}, {"GET", "/api/v1/watch"}, {"DELETE", "/api/v1/watch/namespaces/a/pods/b"}, {"POST", "/api/v1/watch/pods"},
		{"GET", "/api/v1/proxy/namespaces/a/pods/b"}, {"GET", "/api/v1/proxy/nodes/n/exec"}, {"GET", "/api/v1/namespaces/a/pods/b/proxy/" + strings.Repeat("c/", 1024)}, {"GET", "/api/v1/pods/a b"},
		{"GET", "/api/v1/pods?watch=FAL%C5%BFE"}, {"HEAD", "/api/v1/pods?watch=fal\u017fe&limit=x"}, // the long s folds to s
		{"GET", "/api/v1/namespaces/a/pods/b/proxy/../../../secrets"}, {"GET", "/api/v1/namespaces/a/pods/b/proxy/%2e%2e%2f%2e%2e"},
		{"GET", "/api/v1/namespaces/a/pods/b/proxy/%252e%252e"}, {"GET", "/api/v1/namespaces/a%2fpods/b/proxy/x"},
		{"POST", "/api/v1/pods?x=1#&dryRun=All"}, {"POST", "/api/v1/pods?x HTTP/1.1&dryRun=All"}, {"GET", "/api/v1/namespaces/a/pods/b/proxy/x y"}, {"GET", "/version?a\xff"},
		{"GET", "/api/v1/pods/" + strings.Repeat("a", 300)}, {"GET", "/api/v1/pods", "X_Http_Method_Override"}, {"GET", "/api/v1/pods", "Upgrade"},
		{"GET", "/api%2Fv1%2Fnamespaces%2Fa%2Fpods"}, {"GET", "/api%2fv1"}, {"GET", "/%61pi%2e"}, {"GET", "//"}, {"GET", "/."}, {"GET", "/;"}, {"GET", "/%2F"},
		{"GET", "/api/v1/proxy//x"}, {"GET", "/api/v1/namespaces/proxy/services%2Fs/proxy/x"}, {"GET", "/api/v1/namespaces/proxy/services/s%2f/proxy"},
	} {
		h := http.Header{}
		if in[2] != "" {
			h.Set(in[2], "DELETE")
		}
		refused(t, in, Parse(in[0], in[1], h, false))
	}
	for _, header := range []string{"X-Http-Method-Override", "X-Http-Method", "X-HTTPMethodOverride", "X-Method-Override",
		"X-Original-Method", "X-Forwarded-Method",
		"X-Request-Method", "_method", "Method", "X-Verb", "X-Original-Url", "X-Rewrite-Url", "X-Override-Url", "X-Original-Uri", "X-Forwarded-Uri", "X-RequestUri",
		"X-Forwarded-Prefix", "X-Forwarded-Path", "X-Replaced-Path", "X-Envoy-Original-Path", "X_Original_Method", "x.replaced.path", "X-REWRITE-URL"} {
		refused(t, header, Parse("GET", "/api/v1/pods", http.Header{http.CanonicalHeaderKey(header): {"DELETE"}}, false))
		refused(t, header, Parse("GET", "/version", http.Header{header: {"DELETE"}}, false)) // names in any case
	}
	for _, header := range []string{"Accept", "Accept-Encoding", "Audit-Id", "Baggage", "Content-Length", "Content-Type",
		"Forwarded", "Grpc-Timeout", "Kubectl-Command", "Kubectl-Session",
		"Origin", "Sec-Websocket-Key", "Sec-Websocket-Protocol", "Te", "Traceparent", "User-Agent", "Via", "X-Content-Security-Policy", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
		"X-Kubernetes-Pf-Error", "X-Real-Ip", "X-Request-Id", "X-Stream-Protocol-Version"} {
		if r := Parse("GET", "/api/v1/pods", http.Header{header: {"x"}}, false); r.Odd != "" {
			t.Errorf("%s: %s", header, r.Odd)
		}
	}
	for _, in := range [][2]string{{"GET", "/api/v1/pods"}, {"HEAD", "/api/v1/pods"}, {"GET", "/version"},
		{"GET", "/api/v1/namespaces/a/pods/b/exec"}} {
		refused(t, in, Parse(in[0], in[1], nil, true))
	}
	const search = "/api/v1/namespaces/a/services/b/proxy/_search" // takes a GET with a body
	if r := Parse("GET", search, nil, true); r.Odd != "" || !r.Connecting {
		t.Errorf("a workload's own: %+v", r)
	}
	refused(t, search, Parse("GET", search, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, true))
	for value, isOdd := range map[string]bool{
		"Impersonate-User": true, "keep-alive, impersonate-user": true, "close": false, "Upgrade": false, "Keep-Alive, Upgrade": false,
	} {
		h := http.Header{"Connection": {value}, "Impersonate-User": {"jane"}}
		if r := Parse("GET", "/api/v1/pods", h, false); (r.Odd != "") != isOdd {
			t.Errorf("Connection: %s: odd %q", value, r.Odd)
		}
	}
	for protocol, isOdd := range map[string]bool{"websocket": false, "WebSocket": false, "SPDY/3.1": false, "h2c": true,
		"websocket, h2c": true, "TLS/1.0": true, "": false} {
		h := http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol}}
		r := Parse("GET", "/api/v1/namespaces/a/pods/b/exec", h, false)
		if (r.Odd != "") != isOdd || !r.Connecting {
			t.Errorf("Upgrade: %s: odd %q", protocol, r.Odd)
		}
	}
	for _, h := range []http.Header{{"Connection": {"upgrade"}}, {"Upgrade": {"websocket"}},
		{"Connection": {"Keep-Alive, Upgrade"}, "Upgrade": {"SPDY/3.1"}}} {
		const pod = "/api/v1/namespaces/a/pods/b"
		for _, in := range [][2]string{{"DELETE", pod}, {"PATCH", pod}, {"PUT", pod + "/status"}, {"HEAD", pod}, {"POST", "/api/v1/namespaces/a/pods"},
			{"POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"}, {"POST", pod + "/eviction"}, {"DELETE", "/"}} {
			refused(t, in, Parse(in[0], in[1], h, in[0] != "HEAD"))
		}
		for _, in := range [][2]string{{"POST", pod + "/exec"}, {"POST", pod + "/portforward"}, {"PUT", pod + "/proxy/x"}, {"GET", pod}} {
			if r := Parse(in[0], in[1], h, false); !r.Connecting || r.Odd != "" && r.Protocol != "" {
				t.Errorf("%v %v: %+v", in, h, r)
			}
		}
	}
	if r := Parse("GET", "/api/v1/pods", http.Header{"Impersonate-User": {strings.Repeat("a", 2000)}},
		false); r.Odd == "" {
		t.Error("nobody can read for whom it is")
	}
	for _, target := range []string{
		"/api/v1/namespaces/a/services/http:web:80/proxy/a//b/%2F;x?y=;", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/r%C3%B4le", "/api/v1/namespaces/a/configmaps/kube-root-ca.crt", "/", "",
	} {
		if r := Parse("GET", target, nil, false); r.Odd != "" {
			t.Errorf("%s: %s", target, r.Odd)
		}
	}
}

// refused checks that policies that look at requests serve none of the kind.
func refused(t *testing.T, in any, r Request) {
	t.Helper()
	if r.Odd == "" {
		t.Errorf("%q is taken for %s", in, r)
	}
	for _, m := range []Mode{Writes, Always} {
		if needs, err := (Policy{Mode: m}).Needs(r); err == nil || !needs {
			t.Errorf("%q: policy %s lets it pass", in, m)
		}
	}
}

func TestWords(t *testing.T) {
	impersonate := http.Header{"Impersonate-Group": {"a"}, "Impersonate-User": {"jane"}}
	socket := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	for want, r := range map[string]Request{
		"watch pods everywhere (over websocket)":         Parse("GET", "/api/v1/pods?watch=1", socket, false),
		`get pods/exec "db-0" in "web"`:                  Parse("GET", "/api/v1/namespaces/web/pods/db-0/exec", socket, false),
		`patch deployments.apps/scale "nginx" in "web"`:  Parse("PATCH", "/apis/apps/v1/namespaces/web/deployments/nginx/scale", nil, true),
		`create nodes/proxy "n" at "/run/web/db-0/c%2F"`: Parse("POST", "/api/v1/nodes/n/proxy/run/web/db-0/c%2F?cmd=id", nil, false),
		`get services/proxy "s" in "web" at "/"`:         Parse("GET", "/api/v1/namespaces/web/services/s/proxy/", nil, false),
		`get services/proxy "s" in "web"`:                Parse("GET", "/api/v1/namespaces/web/services/s/proxy", nil, false),
		`create pods/exec "db-0" in "web"`:               Parse("POST", "/api/v1/namespaces/web/pods/db-0/exec", nil, false),
		`deletecollection secrets in "web"`:              Parse("DELETE", "/api/v1/namespaces/web/secrets", nil, false),
		`list secrets everywhere as "jane", Group "a"`:   Parse("GET", "/api/v1/secrets", impersonate, false),
		`delete namespaces "web"`:                        Parse("DELETE", "/api/v1/namespaces/web", nil, false),
		`update namespaces/finalize "web"`:               Parse("PUT", "/api/v1/namespaces/web/finalize", nil, true),
		`create configmaps in "web" (dry run)`:           Parse("POST", "/api/v1/namespaces/web/configmaps?dryRun=All", nil, true),
		`post "/nowhere"`:                                Parse("POST", "/nowhere", nil, true),
		`get pods "b" in "a" as "jane\x1b[31m"`:          Parse("GET", "/api/v1/namespaces/a/pods/b", http.Header{"Impersonate-User": {"jane\x1b[31m"}}, false),
		`send secrets in "web"`:                          Parse("OPTIONS", "/api/v1/namespaces/web/secrets", nil, false),
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestNamesStayInTheirQuotes: no name, path, user or kind of object reads like the
// words around it, such as those for a dry run or for impersonation.
func TestNamesStayInTheirQuotes(t *testing.T) {
	as := func(user, group string) http.Header {
		return http.Header{"Impersonate-User": {user}, "Impersonate-Group": {group}}
	}
	const bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"
	for want, r := range map[string]Request{
		`patch clusterrolebindings.rbac.authorization.k8s.io "view" (dry run)`:       Parse("PATCH", bindings+"view?dryRun=All", nil, true),
		`patch clusterrolebindings.rbac.authorization.k8s.io "view (dry run)"`:       Parse("PATCH", bindings+"view%20(dry%20run)", nil, true),
		`patch clusterrolebindings.rbac.authorization.k8s.io "view\" (dry run)"`:     Parse("PATCH", bindings+"view%22%20(dry%20run)", nil, true),
		`patch clusterrolebindings.rbac.authorization.k8s.io "view\u201d (dry run)"`: Parse("PATCH", bindings+"view%E2%80%9D%20(dry%20run)", nil, true),
		`delete pods "p" in "web\" (dry run)"`:                                       Parse("DELETE", "/api/v1/namespaces/web%22%20(dry%20run)/pods/p", nil, false),
		`create "configmaps (dry run)" in "web"`:                                     Parse("POST", "/api/v1/namespaces/web/configmaps%20(dry%20run)", nil, true),
		`create "pods.apps (dry run)" in "web"`:                                      Parse("POST", "/apis/apps%20(dry%20run)/v1/namespaces/web/pods", nil, true),
		`create pods/"x (dry run)" "p" in "web"`:                                     Parse("POST", "/api/v1/namespaces/web/pods/p/x%20(dry%20run)", nil, true),
		`post "/metrics (dry run)"`:                                                  Parse("POST", "/metrics%20(dry%20run)", nil, true),
		`list pods everywhere as "jane, Group view", Group "a"`:                      Parse("GET", "/api/v1/pods", as("jane, Group view", "a"), false),
		`list pods everywhere as "j\u0430ne", Group "a\nb"`:                          Parse("GET", "/api/v1/pods", as("j\u0430ne", "a\nb"), false),
	} {
		if got := r.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
