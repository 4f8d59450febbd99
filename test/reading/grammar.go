package reading

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Request is one request as a client sends it.
type Request struct {
	Method, Target string
	// Header is in lines of "Name: value".
	Header string
	// Body tells whether there is one; Content is it where that matters.
	Body    bool
	Content string
}

func (r Request) String() string {
	return fmt.Sprintf("%s %q header %q body %v %q", r.Method, r.Target, r.Header, r.Body, r.Content)
}

// Headers are the request's, as an HTTP server of Go reads them; ok is false if it
// would not.
func (r Request) Headers() (h http.Header, ok bool) {
	if r.Header == "" {
		return http.Header{}, true
	}
	lines := strings.ReplaceAll(strings.Trim(r.Header, "\n"), "\n", "\r\n") + "\r\n\r\n"
	m, err := textproto.NewReader(bufio.NewReader(strings.NewReader(lines))).ReadMIMEHeader()
	return http.Header(m), err == nil
}

// paths are what kubectl and others send, and what the API server's own tests do.
var paths = []string{
	"/", "/api", "/apis", "/version", "/healthz", "/livez/ping", "/readyz", "/metrics", "/openapi/v3", "/logs/x",
	"/api/v1", "/apis/apps", "/apis/apps/v1", "/debug/pprof/profile",
	"/api/v1/pods", "/api/v1/secrets", "/api/v1/nodes", "/api/v1/nodes/n1", "/api/v1/nodes/n1/proxy/exec/a/b/c",
	"/api/v1/nodes/n1/status", "/api/v1/namespaces", "/api/v1/namespaces/web", "/api/v1/namespaces/web/status",
	"/api/v1/namespaces/web/finalize", "/api/v1/namespaces/web/pods", "/api/v1/namespaces/web/pods/db-0",
	"/api/v1/namespaces/web/pods/db-0/exec", "/api/v1/namespaces/web/pods/db-0/attach",
	"/api/v1/namespaces/web/pods/db-0/portforward", "/api/v1/namespaces/web/pods/db-0/proxy",
	"/api/v1/namespaces/web/pods/db-0/proxy/a/b", "/api/v1/namespaces/web/pods/db-0/log",
	"/api/v1/namespaces/web/pods/db-0/status", "/api/v1/namespaces/web/pods/db-0/eviction",
	"/api/v1/namespaces/web/pods/db-0/binding", "/api/v1/namespaces/web/pods/db-0/ephemeralcontainers",
	"/api/v1/namespaces/web/pods/db-0/resize", "/api/v1/namespaces/web/secrets", "/api/v1/namespaces/web/secrets/s",
	"/api/v1/namespaces/web/configmaps", "/api/v1/namespaces/web/configmaps/kube-root-ca.crt",
	"/api/v1/namespaces/web/services/http:web:80/proxy/a//b", "/api/v1/namespaces/web/serviceaccounts/a/token",
	"/api/v1/namespaces/web/serviceaccounts", "/api/v1/namespaces/web/bindings",
	"/api/v1/watch/pods", "/api/v1/watch/namespaces/web/pods", "/api/v1/watch/namespaces/web/pods/db-0",
	"/api/v1/watch/namespaces/web", "/api/v1/proxy/namespaces/web/pods/db-0", "/api/v1/proxy/nodes/n1/x",
	"/apis/apps/v1/deployments", "/apis/apps/v1/namespaces/web/deployments", "/apis/apps/v1/namespaces/web/deployments/d",
	"/apis/apps/v1/namespaces/web/deployments/d/scale", "/apis/apps/v1/namespaces/web/deployments/d/status",
	"/apis/apps/v1/watch/deployments",
	"/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
	"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/x",
	"/apis/rbac.authorization.k8s.io/v1/namespaces/web/rolebindings/x",
	"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
	"/apis/authorization.k8s.io/v1/subjectaccessreviews",
	"/apis/authorization.k8s.io/v1/namespaces/web/localsubjectaccessreviews",
	"/apis/authentication.k8s.io/v1/selfsubjectreviews", "/apis/authentication.k8s.io/v1/tokenreviews",
	"/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval",
	"/apis/subresources.kubevirt.io/v1/namespaces/web/virtualmachineinstances/v/console",
	"/apis/metrics.k8s.io/v1beta1/nodes", "/apis/example.com/v1/things/t/sub/more",
}

var segments = []string{
	"api", "apis", "v1", "namespaces", "pods", "exec", "proxy", "watch", "status", "finalize", "web", "secrets",
	"attach", "portforward", "log", "selfsubjectaccessreviews", "authorization.k8s.io", "", ".", "..", "%2e%2e", "%2e",
	"%2f", "a%2fb", "%252e", "%252f", "a;b", ";", "%3b", "%00", "%0a", "é", "%c3%a9", "%ff", "\\", "%5c", "~", "%7e",
	"a b", "%20", "+", "%2b", "*", "a:b", "%3a", "a@b", "a,b", "a=b", "#", "%23", "%3f", "ſtatus", "%c5%bftatus",
	"Proxy", "EXEC", "ex%65c", "pr%6fxy", "%70ods", "n%61mespaces", "wat%63h", "%61pi",
}

var methods = []string{"GET", "GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "DELETE", "HEAD", "OPTIONS"}

var oddMethods = []string{"get", "Get", "TRACE", "LINK", "WATCH", "LIST", "PROXY", "CONNECT", "PURGE", "delete"}

var bools = []string{
	"1", "0", "true", "false", "True", "FALSE", "", "t", "f", "yes", "no", "FAL%C5%BFE", "fal%73e", "2", "00", "%30",
	"+0", "false%20", "null", "fal\u017fe",
}

var dryRuns = []string{"All", "All", "All", "all", "", "None", "A%6cl", "All,All", "All%20", "true", "%41ll", "ALL"}

var selectors = []string{"metadata.name=db-0", "metadata.name%3Ddb-0", "metadata.name%3D%3Ddb-0", "metadata.name!=x",
	"metadata.name=..", "metadata.name=a/b", "metadata.name=a%2Cspec.nodeName=b", "spec.nodeName=n", "=", "x", "%%", "a=b=c", "\\"}

// parameters are of the query.
var parameters = map[string][]string{
	"watch": bools, "allowWatchBookmarks": bools, "follow": bools, "tty": bools, "stdin": bools, "command": {"sh", "-c"},
	"dryRun": dryRuns, "fieldSelector": selectors, "labelSelector": {"a=b", "a", "!", "a in (b)", "%"},
	"limit": {"500", "-1", "x", "9999999999999999999"}, "timeoutSeconds": {"1", "x", "-1", ""},
	"resourceVersion": {"0", "", "x"}, "fieldManager": {"kubectl", strings.Repeat("m", 200)}, "force": bools,
	"fieldValidation": {"Strict", "Ignore", "x"}, "propagationPolicy": {"Foreground", "x"}, "gracePeriodSeconds": {"0", "x"},
	"orphanDependents": bools, "timeout": {"1s", "x"}, "pretty": bools, "sendInitialEvents": bools,
	"DryRun": dryRuns, "dryrun": dryRuns, "Watch": bools, "dry%52un": dryRuns, "w%61tch": bools, "watch ": bools, "x;dryRun": dryRuns,
	"method": {"DELETE"}, "_method": {"DELETE"},
}

var parameterNames = keys(parameters)

// headerLines are what a request may carry.
var headerLines = []string{
	"Connection: Upgrade\nUpgrade: websocket", "Connection: keep-alive, Upgrade\nUpgrade: SPDY/3.1", "Upgrade: websocket",
	"Connection: upgrade", "connection: UPGRADE\nupgrade: WebSocket", "Connection: close\nConnection: Upgrade\nUpgrade: h2c",
	"Connection: Upgradeable\nUpgrade: websocket", "Connection: Upgrade\nUpgrade: websocket\nUpgrade: h2c", "Connection: foo",
	"Connection: Impersonate-User\nImpersonate-User: jane", "Impersonate-User: jane", "impersonate-user: jane",
	"Impersonate-User: ", "Impersonate-User: system:serviceaccount:web:a", "Impersonate-User: jane\nImpersonate-Group: system:masters",
	"Impersonate-Group: system:masters", "Impersonate-Uid: 7", "Impersonate-User: a\nImpersonate-User: b",
	"Impersonate-Extra-Scopes: x", "Impersonate-User: j\nImpersonate-Extra-A%2fb: x", "Impersonate-User: j\nimpersonate-uid: 1",
	"Impersonate_User: jane", "Impersonate-Extra-: x", "Impersonate-User: é", "X-Impersonate-User: jane",
	"X-Http-Method-Override: DELETE", "X-Original-Url: /api/v1/secrets", "X-Remote-User: admin", "X-Forwarded-For: 1.2.3.4",
	"Accept: application/json", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io", "Accept: application/yaml",
	"Te: trailers", "Content-Type: application/json", "Content-Type: application/merge-patch+json",
	"Content-Type: application/apply-patch+yaml", "Content-Type: application/strategic-merge-patch+json",
	"Content-Type: application/json-patch+json", "Content-Type: application/yaml", "Content-Type: text/plain",
	"User-Agent: kubectl/v1.37.1", "Kubectl-Command: kubectl get", "Sec-Websocket-Protocol: v5.channel.k8s.io",
	"Sec-Websocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-Websocket-Version: 13", "Origin: https://127.0.0.1",
	"Content-Encoding: gzip", "Expect: 100-continue", "Forwarded: for=1.2.3.4", "Front-End-Https: on",
}

var contents = []string{
	`{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`, `{"kind":"DeleteOptions","apiVersion":"v1"}`,
	`{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","dryRun":["All"]}`, `{}`, `{"dryRun":["All"]}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db-0","namespace":"web"},"spec":{"containers":[{"name":"a","image":"i"}]}}`,
	`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`,
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kube-root-ca.crt"},"data":{"a":"b"}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}}`,
	`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":0}}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"x"}}`,
	`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{}}`,
	`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"db-0"}}`,
	`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"web"}}`, `[{"op":"add","path":"/metadata/labels","value":{}}]`,
	`{"metadata":{"labels":{"a":"b"}}}`, "x", " ",
}

// kinds are what is sent to the paths that hold their key, the last of these that fits.
var kinds = []struct{ part, version, kind string }{
	{"/namespaces", "v1", "Namespace"}, {"/pods", "v1", "Pod"}, {"/secrets", "v1", "Secret"}, {"/configmaps", "v1", "ConfigMap"},
	{"/nodes", "v1", "Node"}, {"/serviceaccounts", "v1", "ServiceAccount"}, {"/token", "authentication.k8s.io/v1", "TokenRequest"},
	{"/eviction", "policy/v1", "Eviction"}, {"/binding", "v1", "Binding"}, {"/deployments", "apps/v1", "Deployment"},
	{"/scale", "autoscaling/v1", "Scale"}, {"/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole"},
	{"/clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding"},
	{"/rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding"},
	{"/selfsubjectaccessreviews", "authorization.k8s.io/v1", "SelfSubjectAccessReview"},
	{"/selfsubjectrulesreviews", "authorization.k8s.io/v1", "SelfSubjectRulesReview"},
	{"/subjectaccessreviews", "authorization.k8s.io/v1", "SubjectAccessReview"},
	{"/localsubjectaccessreviews", "authorization.k8s.io/v1", "LocalSubjectAccessReview"},
	{"/selfsubjectreviews", "authentication.k8s.io/v1", "SelfSubjectReview"},
	{"/tokenreviews", "authentication.k8s.io/v1", "TokenReview"},
}

// contentFor is an object that fits a request, or "".
func contentFor(q Request) string {
	if q.Method == http.MethodDelete {
		return ""
	}
	for _, k := range slices.Backward(kinds) {
		before, after, ok := strings.Cut(q.Target, k.part)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(after, "/"), "?")
		if strings.Contains(name, "/") || name == "" {
			name = "db-0"
		}
		if k.part == "/token" || k.part == "/eviction" || k.part == "/scale" || k.part == "/binding" {
			name = before[strings.LastIndex(before, "/")+1:]
		}
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, k.version, k.kind, name)
	}
	return ""
}

func keys(m map[string][]string) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	// A map has no order, and a seed must give the same requests again.
	slices.Sort(all)
	return all
}

// Generate makes up a request: most often one that Kubernetes' clients could send, with
// a few changes that they would not make.
func Generate(r *rand.Rand) Request {
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	q := Request{Method: pick(methods), Target: pick(paths)}
	if r.IntN(40) == 0 {
		q.Method = pick(oddMethods)
	}
	for range max(0, r.IntN(8)-4) {
		q.Target = mutatePath(r, q.Target)
	}
	for n := r.IntN(8) - 4; n > 0; n-- {
		sep := "&"
		if !strings.Contains(q.Target, "?") {
			sep = "?"
		} else if r.IntN(12) == 0 {
			sep = pick([]string{";", "?", "&&", "%26", "&amp;", "#"})
		}
		key := pick(parameterNames)
		q.Target += sep + key
		if r.IntN(12) > 0 {
			q.Target += "=" + pick(parameters[key])
		}
	}
	for n := r.IntN(6) - 3; n > 0; n-- {
		q.Header += pick(headerLines) + "\n"
	}
	q.Body = (q.Method != http.MethodGet && q.Method != http.MethodHead) == (r.IntN(10) > 0)
	if q.Method == http.MethodDelete {
		q.Body = r.IntN(2) == 0
	}
	if q.Body {
		q.Content = pick(contents)
		if fitting := contentFor(q); fitting != "" && r.IntN(4) > 0 {
			q.Content = fitting
			if q.Method == http.MethodPatch && !strings.Contains(q.Header, "Content-Type") {
				q.Header += "Content-Type: application/" + pick([]string{"merge-patch+json", "strategic-merge-patch+json",
					"apply-patch+yaml"}) + "\n"
			}
		}
	}
	if r.IntN(100) == 0 {
		q.Target = mutateBytes(r, q.Target)
	}
	return q
}

// mutatePath changes a path in one way.
func mutatePath(r *rand.Rand, path string) string {
	parts := strings.Split(path, "/")
	i := r.IntN(len(parts))
	s := segments[r.IntN(len(segments))]
	switch r.IntN(8) {
	case 0:
		parts[i] = s
	case 1:
		parts = append(parts[:i:i], append([]string{s}, parts[i:]...)...)
	case 2:
		parts = append(parts[:i:i], parts[i+1:]...)
	case 3:
		parts = append(parts, s)
	case 4: // another spelling of the same
		if n := len(parts[i]); n > 0 {
			at := r.IntN(n)
			format := "%%%02X"
			if r.IntN(2) == 0 {
				format = "%%%02x"
			}
			parts[i] = parts[i][:at] + fmt.Sprintf(format, parts[i][at]) + parts[i][at+1:]
		}
	case 5:
		j := r.IntN(len(parts))
		parts[i], parts[j] = parts[j], parts[i]
	case 6:
		if i > 0 { // a slash that is none
			parts = append(parts[:i-1:i-1], append([]string{parts[i-1] + "%2F" + parts[i]}, parts[i+1:]...)...)
		}
	case 7:
		parts[i] += s
	}
	return strings.Join(parts, "/")
}

func mutateBytes(r *rand.Rand, s string) string {
	b := []byte(s)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			break
		}
		b[r.IntN(len(b))] = byte(r.IntN(256))
	}
	return string(b)
}
