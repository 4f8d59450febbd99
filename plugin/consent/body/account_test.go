package body

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

func typed(t string) http.Header { return http.Header{"Content-Type": {t}} }

const secret = "s3cr3t-v4lue"

// TestAccount: what a person is told of bodies as clients send them.
func TestAccount(t *testing.T) {
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	for _, c := range []struct {
		name, method, path, media, body string
		want                            []string
	}{
		{"a deployment", "POST", "/apis/apps/v1/namespaces/web/deployments", typeJSON,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":3,"template":{"spec":{
			"serviceAccountName":"admin","hostNetwork":true,"volumes":[{"name":"v","hostPath":{"path":"/etc"}}],
			"containers":[{"name":"c","image":"nginx:1","command":["sh","-c"],"args":["rm -rf /"],"env":[{"name":"P","value":"` + secret + `"}],
			"securityContext":{"privileged":true,"capabilities":{"add":["SYS_ADMIN"]}}}]}}}}`,
			[]string{`Deployment "x"`, `shares the node's network`, `a path of the node: "/etc"`,
				`container c: PRIVILEGED, capabilities SYS_ADMIN`, `replicas: 3`, `as service account "admin"`,
				`container c: image "nginx:1"`, `container c: runs "sh -c rm -rf /"`}},
		{"a cron job", "POST", "/apis/batch/v1/namespaces/web/cronjobs", typeYAML,
			"apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  generateName: x-\nspec:\n  jobTemplate:\n    spec:\n      template:\n" +
				"        spec:\n          initContainers:\n          - name: i\n            image: busybox\n",
			[]string{`CronJob with a name that begins with "x-"`, "init container i: image busybox"}},
		{"a cluster role binding", "POST", rbac + "clusterrolebindings", typeJSON,
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"cluster-admin"},
			"subjects":[{"kind":"User","name":"j\u0430ne"},{"kind":"ServiceAccount","name":"s","namespace":"web"}]}`,
			[]string{`ClusterRoleBinding "b"`, `gives ClusterRole "cluster-admin"`,
				`to User "j\u0430ne" (contains Cyrillic letters)`, `to ServiceAccount "s" of namespace web`}},
		{"many subjects", "POST", rbac + "namespaces/web/rolebindings", typeJSON,
			`{"subjects":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"},{"name":"e"}]}`,
			[]string{"an object", "TO 1 MORE subjects than are shown below",
				`to "" "a"`, `to "" "b"`, `to "" "c"`, `to "" "d"`}},
		{"a cluster role", "PUT", rbac + "clusterroles/r", typeJSON,
			`{"kind":"ClusterRole","metadata":{"name":"r"},"rules":[{"verbs":["get"],"resources":["pods"],"apiGroups":[""]},
			{"verbs":["*"],"resources":["*"],"apiGroups":["*"]},{"verbs":["escalate"],"resources":["clusterroles"]},{"verbs":["get"],"nonResourceURLs":["/metrics"]}]}`,
			[]string{`ClusterRole "r"`, "allows \"*\" of \"*\" in all groups (* is everything)",
				"allows escalate of clusterroles (which can give further rights)", "allows get of pods", "allows get of /metrics"}},
		{"a secret", "POST", "/api/v1/namespaces/web/secrets", typeJSON,
			`{"kind":"Secret","metadata":{"name":"s"},"type":"Opaque","data":{"password":"` + secret + `"},"stringData":{"a b":"` + secret + `"}}`,
			[]string{`Secret "s"`, "data: 1 key, password; values are not shown", `stringData: 1 key, "a b"; values are not shown`, "type Opaque"}},
		{"a secret's patch", "PATCH", "/api/v1/namespaces/web/secrets/s", typeMergePatch,
			`{"data":{"password":"` + secret + `","gone":null}}`,
			[]string{"data: 2 keys, gone, password; values are not shown", "sets data.password", "removes data.gone"}},
		{"a secret's JSON patch", "PATCH", "/api/v1/namespaces/web/secrets/s", typeJSONPatch,
			`[{"op":"add","path":"/data/0","value":"` + secret + `"},` +
				`{"op":"add","path":"/stringData/-","value":"` + secret + `"}]`,
			[]string{`add "/data/0"`, "data: 1 key, 0; values are not shown", `add "/stringData/-"`,
				"stringData: 1 key, -; values are not shown"}},
		{"a secret's JSON patch of a key that is there", "PATCH", "/api/v1/namespaces/web/secrets/s", typeJSONPatch,
			`[{"op":"replace","path":"/data/image","value":"` + secret + `"},{"op":"add","path":"/data","value":{"a":"` + secret + `"}}]`,
			[]string{`replace "/data/image"`, "data: 1 key, image; values are not shown", `add "/data"`,
				"data: 1 key, a; values are not shown"}},
		{"a subject by JSON patch", "PATCH", rbac + "clusterrolebindings/b", typeJSONPatch,
			`[{"op":"add","path":"/subjects/-","value":{"kind":"User","name":"eve"}}]`,
			[]string{`add "/subjects/-"`, `to User "eve"`}},
		{"an image by JSON patch", "PATCH", "/apis/apps/v1/namespaces/web/deployments/x", typeJSONPatch,
			`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"evil"}]`,
			[]string{`replace "/spec/template/spec/containers/0/image"`, "container: image evil"}},
		{"an image by a strategic patch", "PATCH", "/apis/apps/v1/namespaces/web/deployments/x", typeStrategicPatch,
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`,
			[]string{"container c: image evil", "sets spec.template.spec.containers"}},
		{"a server-side apply", "PATCH", "/api/v1/namespaces/web/services/x?fieldManager=kubectl", typeApply,
			"apiVersion: v1\nkind: Service\nmetadata:\n  name: x\nspec:\n  type: LoadBalancer\n  ports:\n  - port: 80\n    nodePort: 30080\n  externalIPs: [10.0.0.1]\n",
			[]string{`Service "x"`, "receives what is sent to 10.0.0.1", "type LoadBalancer", "ports 80 (node 30080)",
				"sets metadata.name, spec.externalIPs, spec.ports, spec.type"}},
		{"an ingress", "POST", "/apis/networking.k8s.io/v1/namespaces/web/ingresses", typeJSON,
			`{"kind":"Ingress","spec":{"rules":[{"host":"a.example"},{}]}}`, []string{"Ingress", `for hosts a.example, "*"`}},
		{"a route", "POST", "/apis/gateway.networking.k8s.io/v1/namespaces/web/httproutes", typeJSON,
			`{"kind":"HTTPRoute","spec":{"hostnames":["a.example"]}}`, []string{"HTTPRoute", "for hosts a.example"}},
		{"a webhook", "POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", typeJSON,
			`{"kind":"MutatingWebhookConfiguration","webhooks":[{"name":"w","clientConfig":{"url":"https://u:` + secret + `@evil.example/` + secret + `"}}]}`,
			[]string{"MutatingWebhookConfiguration", `webhook w: host "evil.example"`}},
		{"an approval", "PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval", typeJSON,
			`{"kind":"CertificateSigningRequest","metadata":{"name":"c"},"status":{"conditions":[{"type":"Approved","status":"True"}]}}`,
			[]string{`CertificateSigningRequest "c"`, "condition Approved: True"}},
		{"a token", "POST", "/api/v1/namespaces/web/serviceaccounts/x/token", typeJSON,
			`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"audiences":["vault"],"expirationSeconds":86400}}`,
			[]string{"TokenRequest", "a token for vault", "for 86400 seconds"}},
		{"a deletion", "DELETE", "/api/v1/namespaces/web/pods/p", typeJSON,
			`{"propagationPolicy":"Background","gracePeriodSeconds":0,"preconditions":{"uid":"1"}}`,
			[]string{"deletes what belongs to it, too (Background)", "grace: 0 s", "only if it is the version of uid"}},
		{"another object than the URL's", "PUT", "/apis/apps/v1/namespaces/web/deployments/x", typeJSON,
			`{"apiVersion":"v1","kind":"Deployment","metadata":{"name":"y","namespace":"prod"},"spec":{"paused":true}}`,
			[]string{`Deployment "y"`, `THE NAME DIFFERS from the request's: "y"`,
				`THE NAMESPACE DIFFERS from the request's: "prod"`, `THE API GROUP DIFFERS from the request's: ""`}},
		{"something unknown", "POST", "/apis/example.com/v1/namespaces/web/things", typeJSON,
			`{"kind":"Thing","spec":{"a":"` + secret + `","b":{"c":1}}}`, []string{"Thing", "sets spec.a, spec.b"}},
		{"no options", "DELETE", "/api/v1/namespaces/web/pods/p", typeJSON, `{}`, []string{"empty"}},
		{"no type is JSON", "POST", "/api/v1/namespaces", "", `{"kind":"Namespace","metadata":{"name":"n","labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`,
			[]string{`Namespace "n"`, "label pod-security.kubernetes.io/enforce: privileged"}},
		{"a path of the API server's own", "POST", "/debug", typeJSON, `{}`, []string{"not read: the path names no resource"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := typed(c.media)
			got := Account(consent.Parse(c.method, c.path, h, true), h, []byte(c.body))
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(c.want, "\n\t"))
			}
			if strings.Contains(strings.Join(got, "\n"), secret) {
				t.Error("a value is told")
			}
		})
	}
}

// TestStreams: of exec and attach the command and the container are told.
func TestStreams(t *testing.T) {
	for path, want := range map[string]string{
		"/pods/p/exec?command=sh&command=-c&command=rm+-rf+%2F&container=c&stdin=true": `runs "sh -c rm -rf /", in container c`,
		"/pods/p/exec?command=a%0AProgram&container=c&container=d":                     `runs "a\nProgram" (contains control characters), in container c`,
		"/pods/p/attach?container=%D0%B0":                                              `in container "\u0430" (contains Cyrillic letters)`,
		"/pods/p/exec?a;b=c":                                                           "not read: the query is malformed",
		"/pods/p/portforward?command=x":                                                "", "/pods/p/exec": "",
	} {
		path = "/api/v1/namespaces/web" + path
		if got := strings.Join(Stream(consent.Parse("GET", path, nil, false), path), ", "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestTwoReadings: of a body that can be read in two ways, or by nobody, nothing is told but
// why.
func TestTwoReadings(t *testing.T) {
	const kind = `{"kind":"Pod","metadata":{"name":"a"}}`
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x]\n")
	for i := range 40 {
		fmt.Fprintf(&bomb, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	for _, c := range []struct{ media, body, want string }{
		{typeJSON, `{"kind":"Pod","kind":"Secret"}`, "a field twice"},
		{typeJSON, `{"spec":{"a":1,"a":2}}`, "a field twice"},
		{typeJSON, `{"kind":"Pod","Kind":"Secret"}`, "in another spelling"},
		{typeJSON, `{"kind":"Pod","Spec":{"hostNetwork":true}}`, "in another spelling"},
		{typeJSON, `{"\u212aind":"Pod"}`, "in another spelling"},
		{typeJSON, kind + kind, "not JSON"},
		{typeJSON, kind + "\x00", "not JSON"},
		{typeJSON, "\ufeff" + kind, "not plain UTF-8"},
		{typeJSON, "\xff\xfe{\x00}\x00", "not plain UTF-8"},
		{typeJSON, `{"a":"` + "\xff" + `"}`, "not plain UTF-8"},
		{typeJSON, "kind: Pod", "not JSON"},
		{typeJSON, "[]", "not an object"},
		{typeJSON, strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "not JSON"},
		{typeJSON, "[" + strings.Repeat("0,", maxParts) + "0]", "too many parts"},
		{typeJSON, `{"n":1e999999}`, "not JSON"},
		{typeYAML, "kind: Pod\nkind: Secret\n", "a field twice"},
		{typeYAML, "on: 1\n\"true\": 2\n", "a field twice"},
		{typeYAML, "kind: Pod\n---\nkind: Secret\n", "more than one document"},
		{typeYAML, "kind: Pod\n...\n---\n", "more than one document"},
		{typeYAML, bomb.String(), "anchors or tags"},
		{typeYAML, "a: {x: 1}\nb:\n  <<: {y: 1}\n", "anchors or tags"},
		{typeYAML, "kind: !!str Pod\n", "anchors or tags"},
		{typeYAML, strings.Repeat("- a\n", maxParts), "too many parts"},
		{typeYAML, "\x00", "not YAML"},
		{typeProtobuf, "k8s\x00", "the body is protobuf"},
		{"application/cbor", "\xd9", "of type application/cbor"},
		{"text/plain", kind, "of type text/plain"},
		{"application/json; charset=utf-16", kind, "cannot be understood"},
		{"application/json; a=b; a=c", kind, "cannot be understood"},
	} {
		r := consent.Parse("POST", "/api/v1/namespaces/web/pods", nil, true)
		got := Account(r, typed(c.media), []byte(c.body))
		if len(got) != 1 || !strings.HasPrefix(got[0], "not read: ") || !strings.Contains(got[0], c.want) {
			t.Errorf("%.60q: %q, want %q", c.body, got, c.want)
		}
	}
	r := consent.Parse("PATCH", "/api/v1/namespaces/web/pods/p", nil, true)
	for want, h := range map[string]http.Header{
		"names no type":    {},
		"of type":          {"Content-Type": {"application/Merge-Patch+json"}},
		"several types":    {"Content-Type": {typeMergePatch, typeJSONPatch}},
		"Content-Encoding": {"Content-Type": {typeMergePatch}, "Content-Encoding": {"gzip"}},
	} {
		if got := Account(r, h, []byte(kind)); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%v: %q", h, got)
		}
	}
}

// TestAccountIsBounded: however much a body holds, its account is short.
func TestAccountIsBounded(t *testing.T) {
	long := strings.Repeat("\u043e", 1<<16)
	pods := strings.Repeat(`{"name":"`+long[:400]+`","image":"`+long+`"},`, 20)
	for _, body := range []string{
		`{"kind":"` + long + `","metadata":{"name":"` + long + `"},"spec":{"containers":[` + strings.TrimSuffix(pods, ",") + `]}}`,
		`{"kind":"PodList","items":[` + strings.TrimSuffix(strings.Repeat(`{"metadata":{"name":"x"}},`, 5000), ",") + `]}`,
		`{` + strings.TrimSuffix(strings.Repeat(`"a":{`, 5000), ",") + strings.Repeat("}", 5001),
	} {
		got := Account(consent.Parse("POST", "/api/v1/namespaces/web/pods", nil, true), typed(typeJSON), []byte(body))
		bounded(t, got)
	}
	ops := "[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"`+strings.Repeat("/a", 5000)+`","value":"x"},`, 20), ",") + "]"
	got := Account(consent.Parse("PATCH", "/api/v1/namespaces/web/pods/p", nil, true), typed(typeJSONPatch), []byte(ops))
	bounded(t, got)
	if got[len(got)-1] != "and 8 more lines that are not shown" {
		t.Errorf("%q", got)
	}
}

func bounded(t *testing.T, lines []string) {
	t.Helper()
	if len(lines) == 0 || len(lines) > maxLines+1 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if l == "" || len(l) > MaxLine || strings.ContainsFunc(l, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Errorf("%q", l)
		}
	}
}

// FuzzAccount: an account is short ASCII whatever a body is, and has no value of a Secret.
func FuzzAccount(f *testing.F) {
	for _, body := range []string{"", "{}", `{"kind":"Secret","data":{"a":"` + secret + `"}}`, "kind: Secret\nstringData:\n  a: " + secret + "\n",
		`[{"op":"add","path":"/data/a","value":"` + secret + `"}]`, `{"spec":{"containers":[{"image":"x","command":["y"]}]}}`,
		`{"roleRef":{"name":"x"},"subjects":[{"kind":"User","name":"y"}]}`, `{"rules":[{"verbs":["*"]}]}`, "a: &a [*a]", "---\n---"} {
		for i := range 8 {
			f.Add([]byte(body), byte(i), byte(3*i))
		}
	}
	paths := []string{"/api/v1/namespaces/web/secrets/s", "/api/v1/namespaces/web/configmaps/s", "/api/v1/namespaces/web/pods/p",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/r", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/r",
		"/apis/apps/v1/namespaces/web/deployments/d", "/api/v1/namespaces/web/services/s", "/api/v1/namespaces/web/serviceaccounts/s/token",
		"/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval", "/apis/gateway.networking.k8s.io/v1/gateways/g",
		"/apis/networking.k8s.io/v1/namespaces/web/ingresses/i", "/apis/apiregistration.k8s.io/v1/apiservices/a",
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v", "/api/v1/namespaces/web", "/x"}
	media := []string{typeJSON, typeYAML, typeJSONPatch, typeMergePatch, typeStrategicPatch, typeApply, "", "text/plain"}
	shown := []string{"kind", "type", "apiVersion"} // fields shown even for a Secret
	methods := []string{"POST", "PUT", "PATCH", "DELETE"}
	f.Fuzz(func(t *testing.T, body []byte, where, how byte) {
		path, method := paths[int(where)%len(paths)], methods[int(how)%len(methods)]
		h := typed(media[int(how/4)%len(media)])
		r := consent.Parse(method, path, h, true)
		bounded(t, Account(r, h, body))
		key, err := json.Marshal(string(body[:min(len(body), 100)]))
		if err != nil || bytes.Contains(body, []byte(secret)) {
			return
		}
		r = consent.Parse(method, "/api/v1/namespaces/web/secrets/s", h, true)
		for _, marked := range []string{`{"data":{KEY:VALUE},KEY:VALUE,"spec":{KEY:VALUE,"a":{KEY:VALUE}}}`,
			`[{"op":"add","path":KEY,"value":VALUE},{"op":"replace","path":"/data","value":{KEY:VALUE}}]`} {
			marked = strings.NewReplacer("KEY", string(key), "VALUE", `"`+secret+`"`).Replace(marked)
			lines := Account(r, h, []byte(marked))
			bounded(t, lines)
			if strings.Contains(strings.Join(lines, "\n"), secret) && !slices.Contains(shown, strings.Trim(string(key), `"/`)) {
				t.Errorf("%s: %q", marked, lines)
			}
		}
	})
}
