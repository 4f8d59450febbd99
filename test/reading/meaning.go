package reading

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// Meaning is what the API server takes a request for.
type Meaning struct {
	Verb, Group, Resource, Subresource, Namespace, Name, Path string
	// ResourceRequest: the path names a resource.
	ResourceRequest bool
	Method          string
	// DryRun: nothing is kept. Connects: it opens a way into a workload or changes its
	// protocol. As: it is for somebody else.
	DryRun, Connects, As bool
	// Selected: the name is from a field selector.
	Selected bool
}

// factory is kube-apiserver's.
var factory = &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// Incoming is the request as an HTTP server of Go hands it to its handler; ok is false
// if it would not. The bridge itself refuses a target that begins with no slash.
func (r Request) Incoming() (in *http.Request, ok bool) {
	h, ok := r.Headers()
	if !ok || !strings.HasPrefix(r.Target, "/") {
		return nil, false
	}
	u, err := url.ParseRequestURI(r.Target)
	if err != nil {
		return nil, false
	}
	return &http.Request{Method: r.Method, URL: u, Header: h, RequestURI: r.Target, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1}, true
}

// Impersonates tells whether a request is for somebody else, and whether the filter for
// that lets it through.
type Impersonates func(*http.Request, *apirequest.RequestInfo) (as, ok bool)

// Meant is what the API server's parts take a request for; ok is false if they
// refuse it.
func Meant(in *http.Request, body bool, impersonates Impersonates) (m Meaning, ok bool) {
	info, err := factory.NewRequestInfo(in)
	if err != nil {
		return m, false
	}
	m = Meaning{Verb: info.Verb, Group: info.APIGroup, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name, Path: info.Path, ResourceRequest: info.IsResourceRequest,
		Method: in.Method}
	m.Selected = (m.Verb == "list" || m.Verb == "watch") && len(info.Parts) < 2
	if m.As, ok = impersonates(in, info); !ok {
		return m, false
	}
	m.Connects = httpstream.IsUpgradeRequest(in) || wsstream.IsWebSocketRequest(in) ||
		m.ResourceRequest &&
			(m.Verb == "proxy" || slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, m.Subresource))
	m.DryRun = m.ResourceRequest && !m.Connects && dry(m, in.URL.Query(), body)
	return m, true
}

// dry reads the options as the handlers of package endpoints/handlers do. The body of a
// deletion is not known here: with one, no deletion counts as dry. A request that they
// refuse counts as dry: it does nothing.
func dry(m Meaning, query url.Values, body bool) bool {
	decode := func(into runtime.Object, check func() field.ErrorList, dryRun *[]string) bool {
		err := metainternalversionscheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, into)
		return err != nil || len(check()) > 0 || dryrun.IsDryRun(*dryRun)
	}
	if m.Subresource == "token" { // A token is made all the same.
		return false
	}
	switch m.Verb {
	case "create":
		o := &metav1.CreateOptions{}
		return decode(o, func() field.ErrorList { return validation.ValidateCreateOptions(o) }, &o.DryRun)
	case "update":
		o := &metav1.UpdateOptions{}
		return decode(o, func() field.ErrorList { return validation.ValidateUpdateOptions(o) }, &o.DryRun)
	case "patch": // with the field manager that an apply needs, as its lack is one more reason to refuse
		o := &metav1.PatchOptions{}
		return decode(o, func() field.ErrorList {
			return validation.ValidateUpdateOptions((*metav1.UpdateOptions)(
				&metav1.UpdateOptions{DryRun: o.DryRun}))
		}, &o.DryRun)
	case "delete", "deletecollection":
		o := &metav1.DeleteOptions{}
		return !body && decode(o, func() field.ErrorList { return validation.ValidateDeleteOptions(o) }, &o.DryRun)
	}
	return false
}

// Compare gives one request to both. problem says what is not as it must be, or nothing;
// judged tells whether ours was not odd, accepted whether theirs would serve it.
func Compare(q Request, impersonates Impersonates) (problem string, judged, accepted bool) {
	in, ok := q.Incoming()
	if !ok {
		return "", false, false
	}
	// The bridge judges the headers as they came in; the API server's filters may change theirs.
	ours := consent.Parse(q.Method, q.Target, in.Header.Clone(), q.Body)
	theirs, ok := Meant(in, q.Body, impersonates)
	if !ok {
		return "", ours.Odd == "", false
	}
	if problem = Differs(ours, theirs); problem == "" {
		if p := Laxer(ours, theirs); p != "" {
			problem = "the policy " + p + " serves it"
		}
	}
	if problem != "" {
		problem = fmt.Sprintf("%s\n%s\nhere  %+v\nthere %+v", q, problem, ours, theirs)
	}
	return problem, ours.Odd == "", true
}

// Differs says how ours is another reading than m, or ""; a reading that a policy asks
// more for is no difference where docs/security.md says that it does.
func Differs(ours consent.Request, m Meaning) string {
	if ours.Odd != "" {
		return ""
	}
	for _, d := range []struct{ what, ours, theirs string }{
		{"verb", ours.Verb, m.Verb}, {"group", ours.Group, m.Group}, {"resource", ours.Resource, m.Resource},
		{"subresource", ours.Subresource, m.Subresource}, {"namespace", ours.Namespace, m.Namespace},
		{"name", ours.Name, m.Name}, {"path", ours.Path, m.Path},
	} {
		if d.what == "name" && m.Selected || d.what == "path" && m.ResourceRequest {
			continue // the name of a selector is no part of the path
		}
		if d.ours != d.theirs {
			return fmt.Sprintf("%s: %q here, %q there", d.what, d.ours, d.theirs)
		}
	}
	switch {
	case ours.Path == "" && ours.Resource == "" && m.Path != "" || ours.Resource != "" != m.ResourceRequest:
		return fmt.Sprintf("a resource here %v, there %v", ours.Resource != "", m.ResourceRequest)
	case m.As && ours.As == "":
		return "impersonation that is not seen here"
	case m.Connects && !ours.Connecting:
		return "a connection that is not seen here"
	case ours.DryRun && !m.DryRun:
		return "a dry run here, not there"
	}
	return ""
}

// Laxer says which policy serves ours without a question although m needs one, or "".
func Laxer(ours consent.Request, m Meaning) string {
	for _, p := range policies {
		if needs, _ := p.policy.Needs(ours); !needs && p.asks(m) {
			return p.policy.String()
		}
	}
	return ""
}

// judgement is a policy, and by what it asks, in terms of the API server's reading. It is
// written from docs/security.md, not from package consent.
type judgement struct {
	policy consent.Policy
	asks   func(Meaning) bool
}

var policies = []judgement{
	{consent.Policy{Mode: consent.Writes}, func(m Meaning) bool {
		return (m.As || !m.DryRun) && m.writes() && !m.aboutMe()
	}},
	{consent.Policy{Mode: consent.Always}, func(m Meaning) bool { return !m.Discovery() }},
	rule(consent.Rule{Verbs: []string{"delete"}, Resources: []string{"secrets", "pods"}}, func(m Meaning) bool {
		return strings.HasPrefix(m.Verb, "delete") && (m.Resource == "secrets" || m.Resource == "pods")
	}),
	rule(consent.Rule{Verbs: []string{"create"}, Resources: []string{"pods/exec", "*/token"}, Namespaces: []string{"web"}},
		func(m Meaning) bool {
			return m.Namespace == "web" && (m.Verb == "create" || m.Connects) &&
				(m.Resource == "pods" && m.Subresource == "exec" || m.Subresource == "token")
		}),
	rule(consent.Rule{Verbs: []string{"watch"}}, func(m Meaning) bool { return m.Verb == "watch" }),
	rule(consent.Rule{Verbs: []string{"list"}}, func(m Meaning) bool { return m.Verb == "list" }),
	rule(consent.Rule{Verbs: []string{"get"}, Resources: []string{"secrets", "clusterroles.rbac.authorization.k8s.io"}},
		func(m Meaning) bool {
			return m.Verb == "get" && (m.Resource == "secrets" ||
				m.Resource == "clusterroles" && m.Group == "rbac.authorization.k8s.io")
		}),
	rule(consent.Rule{Verbs: []string{"connect"}}, func(m Meaning) bool { return m.Connects }),
	rule(consent.Rule{Verbs: []string{"impersonate"}}, func(m Meaning) bool { return m.As }),
	rule(consent.Rule{Verbs: []string{"patch", "update"}, DryRun: true}, func(m Meaning) bool {
		return m.Verb == "patch" || m.Verb == "update"
	}),
}

func rule(r consent.Rule, asks func(Meaning) bool) judgement {
	return judgement{consent.Policy{Mode: consent.Rules, Rules: []consent.Rule{r}}, func(m Meaning) bool {
		return asks(m) && (m.As || r.DryRun || !m.DryRun) && !m.aboutMe()
	}}
}

func (m Meaning) safe() bool { return m.Method == http.MethodGet || m.Method == http.MethodHead }

func (m Meaning) writes() bool {
	if m.As || m.Connects || !m.safe() {
		return true
	}
	return m.ResourceRequest && !slices.Contains([]string{"get", "list", "watch"}, m.Verb)
}

func (m Meaning) aboutMe() bool {
	if m.Verb != "create" || m.As || m.Connects {
		return false
	}
	switch m.Resource + "." + m.Group {
	case "selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io",
		"selfsubjectreviews.authentication.k8s.io":
		return m.Subresource == "" && m.Name == "" && m.Namespace == ""
	}
	return false
}

// Discovery tells whether it only asks which APIs there are, or whether the server is well.
func (m Meaning) Discovery() bool {
	if m.ResourceRequest || m.As || m.Connects || !m.safe() {
		return false
	}
	for _, prefix := range []string{"/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz"} {
		if m.Path == prefix || strings.HasPrefix(m.Path, prefix+"/") {
			return true
		}
	}
	return false
}
