package served

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/rbac"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/consent/body"
)

var bodies = flag.Int("bodies", 6_000, "how many bodies TestBodies sends")

// sent is a request with a body, of which an account is given.
type sent struct {
	method, path, media string
	body                []byte
}

// object is JSON to be changed.
type object = map[string]any

var someNames = []string{
	"alice", "system:masters", "cluster-admin", "j\u0430ne", "a b", "\"x\"", "nginx:1", "quay.io/a/b@sha256:1", "-",
	"0", "true", "null", "a\nb", "café", "\u202ex",
}

// someBody makes up an object that Kubernetes knows, written in one of the ways that it
// takes, and at times in one that could be read in several.
func someBody(r *rand.Rand) sent {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	name := func() string { return pick(someNames...) }
	s := sent{method: http.MethodPost, media: "application/json"}
	var o object
	switch r.IntN(4) {
	case 0:
		s.path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
		var subjects []any
		for range r.IntN(7) {
			subjects = append(subjects, object{"kind": pick("User", "Group", "ServiceAccount"), "name": name(),
				"namespace": "web"})
		}
		o = object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": object{"name": "x"},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name()},
			"subjects": subjects}
	case 1:
		s.path = "/api/v1/namespaces/web/pods"
		o = object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "x"}, "spec": somePod(r, name)}
	case 2:
		s.path = "/apis/apps/v1/namespaces/web/deployments"
		o = object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "x"},
			"spec": object{"replicas": r.IntN(9), "template": object{"spec": somePod(r, name)}}}
	case 3:
		s.path, s.method = "/apis/apps/v1/namespaces/web/deployments/x/scale", http.MethodPut
		o = object{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": object{"name": "x", "namespace": "web"},
			"spec": object{"replicas": r.IntN(9)}}
	}
	if s.method == http.MethodPost && r.IntN(3) == 0 {
		s.path += "/x?fieldManager=reading&force=true"
		s.method, s.media = http.MethodPatch, pick("application/merge-patch+json", "application/strategic-merge-patch+json",
			"application/apply-patch+yaml")
	}
	for range max(0, r.IntN(5)-2) {
		misspell(r, o)
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // Maps and strings can always be encoded.
	}
	if s.method != http.MethodPatch && r.IntN(3) == 0 {
		s.media = pick("application/yaml", "application/yaml; charset=utf-8")
	}
	if strings.Contains(s.media, "yaml") && r.IntN(4) > 0 {
		if text, err = yaml.JSONToYAML(text); err != nil {
			panic(err) // The body is JSON.
		}
	}
	s.body = text
	for range max(0, r.IntN(5)-3) {
		s.body = []byte(rewrite(r, string(s.body)))
	}
	return s
}

func somePod(r *rand.Rand, name func() string) object {
	var containers []any
	for i := range 1 + r.IntN(3) {
		c := object{"name": fmt.Sprint("c", i), "image": name()}
		if r.IntN(3) == 0 {
			c["securityContext"] = object{"privileged": r.IntN(2) == 0}
		}
		containers = append(containers, c)
	}
	return object{"containers": containers, "hostNetwork": r.IntN(4) == 0}
}

// misspell writes one field somewhere in other letters, or puts such a one beside it.
func misspell(r *rand.Rand, o object) {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	for range 3 {
		k := keys[r.IntN(len(keys))]
		inner, ok := o[k].(object)
		if ok && len(inner) > 0 && r.IntN(2) == 0 {
			misspell(r, inner)
			return
		}
		other := strings.ToUpper(k[:1]) + k[1:]
		if r.IntN(3) == 0 {
			other = strings.ReplaceAll(k, "s", "\u017f")
		}
		o[other] = o[k]
		if r.IntN(2) == 0 {
			delete(o, k)
		}
		return
	}
}

// rewrite changes the text.
func rewrite(r *rand.Rand, s string) string {
	switch r.IntN(9) {
	case 0: // a field twice
		for _, field := range []string{`"name":`, `"image":`, `"subjects":`, `"replicas":`, "name: ", "image: "} {
			if i := strings.LastIndex(s, field); i >= 0 && r.IntN(2) == 0 {
				value, sep := `"other"`, ","
				if strings.HasSuffix(field, " ") {
					indent := i - strings.LastIndex(s[:i], "\n") - 1
					value, sep = "other", "\n"+strings.Repeat(" ", indent)
				}
				return s[:i] + field + value + sep + s[i:]
			}
		}
	case 1:
		return strings.Replace(s, `"image"`, `"\u0069mage"`, 1)
	case 2:
		return s + []string{"\n---\n{}", "{}", " ", "\n", "# x", "\x00", "]"}[r.IntN(7)]
	case 3:
		return "\ufeff" + s
	case 4:
		return strings.Replace(s, `"name":"`, "\"name\":\"\xff", 1)
	case 5:
		return strings.Replace(s, "metadata:", "metadata: &a\n  b: *a\nmetadata:", 1)
	case 6:
		return strings.Replace(s, `:"`, `: !!str "`, 1)
	case 7:
		if i := r.IntN(len(s) + 1); i < len(s) {
			return s[:i] + string(rune(r.IntN(128))) + s[i+1:]
		}
	case 8:
		return strings.ReplaceAll(s, `"privileged":true`, `"privileged":`+[]string{"1", `"true"`, "yes", "TRUE"}[r.IntN(4)])
	}
	return s
}

// TestBodies: what a person is told of a body is in the object that an API server makes of
// it, or the body is called not read.
func TestBodies(t *testing.T) {
	chance := source(t)
	var last *happened
	server := apiServer(t, func(h *happened) { last = h })
	unread, kept := 0, 0
	for range *bodies {
		s := someBody(chance)
		h := http.Header{"Content-Type": {s.media}}
		lines := body.Account(consent.Parse(s.method, s.path, h, true), h, s.body)
		r := httptest.NewRequest(s.method, s.path, strings.NewReader(string(s.body)))
		r.Header = h
		server.ServeHTTP(httptest.NewRecorder(), r)
		if strings.HasPrefix(lines[0], "not read: ") {
			unread++
			continue
		}
		last.mu.Lock()
		for _, d := range last.done {
			if d.object == nil {
				continue
			}
			kept++
			if missing := untold(d.object, lines); missing != "" {
				t.Errorf("%s %s %s %q\n%s is not in\n%s", s.method, s.path, s.media, s.body, missing, strings.Join(lines, "\n"))
			}
		}
		last.mu.Unlock()
		if t.Failed() {
			return
		}
	}
	t.Logf("%d bodies, %d not read, %d kept by the server and compared", *bodies, unread, kept)
	if kept < *bodies/4 {
		t.Error("too few were kept")
	}
}

// untold is what an object has that is in no line and belongs there, or "". It also
// tells of words about it that the object does not bear out.
func untold(o any, lines []string) string {
	all := strings.Join(lines, "\n")
	if strings.Contains(all, "more lines that are not shown") {
		return ""
	}
	switch o := o.(type) {
	case *rbac.ClusterRoleBinding:
		if n := o.RoleRef.Name; n != "" &&
			!strings.Contains(all, "gives "+consent.Name(o.RoleRef.Kind)+" "+consent.Quote(n)) {
			return "the role " + n
		}
		if told := strings.Count(all, "\nto "); told != min(len(o.Subjects), 4) {
			return fmt.Sprintf("the number of %d subjects", len(o.Subjects))
		}
		for _, s := range o.Subjects[:min(len(o.Subjects), 4)] {
			if !strings.Contains(all, "\nto "+consent.Name(s.Kind)+" "+consent.Quote(s.Name)) {
				return "the subject " + s.Name
			}
		}
	case *core.Pod:
		return untoldPod(&o.Spec, all)
	case *apps.Deployment:
		if told := fmt.Sprintf("replicas: %d", o.Spec.Replicas); strings.Contains(all, "replicas: ") &&
			!strings.Contains(all, told) {
			return told
		}
		return untoldPod(&o.Spec.Template.Spec, all)
	case *autoscaling.Scale:
		if told := fmt.Sprintf("replicas: %d", o.Spec.Replicas); o.Spec.Replicas != 0 && !strings.Contains(all, told) {
			return told
		}
	}
	return ""
}

func untoldPod(p *core.PodSpec, all string) string {
	privileged := false
	for _, c := range p.Containers {
		if c.Image != "" && !strings.Contains(all, "image "+consent.Name(c.Image)) {
			return "the image " + c.Image
		}
		privileged = privileged ||
			c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	}
	if told := strings.Count(all, ": image "); told > len(p.Containers) {
		return fmt.Sprintf("the right number of %d images", len(p.Containers))
	}
	if privileged != strings.Contains(all, "PRIVILEGED") {
		return fmt.Sprintf("privileged: %v", privileged)
	}
	if host := p.HostNetwork; host != strings.Contains(all, "shares the node's") {
		return fmt.Sprintf("the node's network: %v", host)
	}
	return ""
}
