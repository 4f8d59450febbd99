package consent

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Request is what a request does, in the API server's terms.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection;
	// the method in lower case where Resource is empty; "" for a method that has no verb.
	Verb string `json:"verb,omitempty"`
	// Group, Resource and Subresource name the resource; Resource is empty for a
	// path that names none (/version).
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	// Name is the object's, where the path has it: that of a new one is in the body.
	Name string `json:"name,omitempty"`
	// Path is the whole path where Resource is empty, and of a proxied request what follows the
	// subresource proxy, as it is encoded.
	Path string `json:"path,omitempty"`
	// As is who is impersonated: a user, and what else the headers say.
	As string `json:"as,omitempty"`
	// DryRun: nothing will be kept, as far as the API server's own rules go.
	DryRun bool `json:"dryRun,omitempty"`
	// Connecting: it opens a way into a workload or node, or is a GET that changes its protocol.
	Connecting bool `json:"connecting,omitempty"`
	// Protocol is what it changes to: "websocket" or "spdy/3.1".
	Protocol string `json:"protocol,omitempty"`
	// Terminal: an exec or attach that hands over the client's terminal.
	Terminal bool `json:"-"`
	// Odd is why the request cannot be judged, "" if it can.
	Odd string `json:"odd,omitempty"`

	safeMethod bool // GET or HEAD
	own        int  // path segments that the API reads; the rest is a workload's
}

// Subresources that connect with any method: exec over WebSocket is a GET.
var connecting = []string{"exec", "attach", "portforward", "proxy"}

// rewrites reports whether a header of this name may make a proxy take the request for another one.
// The API server knows no such header. There is no complete list of them (X-HTTP-Method-Override,
// X-Original-URL, X-Forwarded-Uri, _method), so a word in the name decides. Some servers read an
// underscore or other mark as a dash.
func rewrites(header string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(header),
		func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9') }) {
		for _, part := range []string{"method", "overrid", "rewrit"} {
			if strings.Contains(word, part) {
				return true
			}
		}
		for _, end := range []string{"uri", "url", "path", "prefix", "verb"} {
			if strings.HasSuffix(word, end) {
				return true
			}
		}
	}
	return false
}

// Protocols that Kubernetes upgrades to. Any other could carry requests that are not seen here: h2c
// (RFC 7540 section 3.2) is HTTP again.
var protocols = []string{"websocket", "spdy/3.1"}

// Bounds of what is put to a person, in bytes. No API object's name is as long.
const (
	maxName = 253
	maxAs   = 1024
	maxPath = 2048 // of a proxied request
)

// Parse reads a request. target is its path and query as they are sent to the
// API server, to the byte, without the server's own path prefix. hasBody tells
// whether anything follows the headers.
func Parse(method, target string, h http.Header, hasBody bool) Request {
	r := Request{safeMethod: method == http.MethodGet || method == http.MethodHead, As: impersonated(h)}
	rawPath, rawQuery, _ := strings.Cut(target, "?")
	query, queryErr := url.ParseQuery(rawQuery)
	path, err := url.PathUnescape(rawPath)
	if err != nil {
		r.Verb, r.Odd = strings.ToLower(method), "its path is malformed"
		return r
	}
	r.locate(method, path, query)
	if r.Odd == "" && r.Name == "" && folds(query["watch"]) {
		r.Odd = "its parameter watch is ambiguous"
	}
	upgrade := h["Upgrade"] != nil
	for _, v := range h["Connection"] {
		upgrade = upgrade || strings.Contains(strings.ToLower(v), "upgrade")
	}
	if upgrade {
		r.Protocol = strings.ToLower(strings.Join(h["Upgrade"], ", "))
	}
	proxied, connects := r.Subresource == "proxy", slices.Contains(connecting, r.Subresource)
	r.Connecting = connects || upgrade && method == http.MethodGet
	r.Terminal = (r.Subresource == "exec" || r.Subresource == "attach") && isTrue(query["tty"]) && isTrue(query["stdin"])
	if r.Odd == "" {
		r.Odd = odd(method, target, r.own, h)
	}
	if proxied && r.Odd == "" {
		if all := strings.SplitN(strings.TrimPrefix(rawPath, "/"), "/", r.own+1); len(all) > r.own {
			r.Path = "/" + all[r.own]
		}
	}
	switch {
	case r.Odd != "":
	case upgrade && !connects && method != http.MethodGet:
		// The API server ignores that and makes the change.
		r.Odd = "it is a " + method + " that asks for another protocol"
	case len(r.Path) > maxPath && proxied:
		r.Odd = "its path is too long to be read"
	case hasBody && r.safeMethod && (upgrade || !proxied): // a workload's own protocol may have that
		// The API server does not read it. An aggregated API, or what stands in front, may.
		r.Odd = "it is a " + method + " with a body"
	case r.Protocol != "" && !slices.Contains(protocols, r.Protocol):
		r.Odd = "it changes to a protocol that Kubernetes does not use"
	case len(r.As) > maxAs:
		r.Odd = "whom it is sent for is too long to be read"
	}
	r.DryRun = queryErr == nil && r.dryRun(query["dryRun"], hasBody)
	return r
}

// locate is RequestInfoFactory.NewRequestInfo for the prefixes api and apis.
func (r *Request) locate(method, path string, query url.Values) {
	r.Verb, r.Path = strings.ToLower(method), path
	parts := strings.Split(strings.Trim(path, "/"), "/")
	all := len(parts)
	r.own = math.MaxInt
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		r.Group, parts = parts[1], parts[3:]
	default:
		return
	}
	r.Path = ""
	switch method {
	case http.MethodPost:
		r.Verb = "create"
	case http.MethodGet, http.MethodHead:
		r.Verb = "get"
	case http.MethodPut:
		r.Verb = "update"
	case http.MethodPatch:
		r.Verb = "patch"
	case http.MethodDelete:
		r.Verb = "delete"
	default:
		r.Verb = ""
	}
	if verb := parts[0]; verb == "watch" || verb == "proxy" { // the old verbs in the path
		if parts = parts[1:]; len(parts) == 0 || verb == "proxy" || !r.safeMethod {
			r.Odd = "its path has the verb " + verb + ", which is not served so"
			return
		}
		r.Verb = verb
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		r.Namespace = parts[1]
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	r.Resource = parts[0]
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Subresource = parts[2]
	}
	if r.Subresource == "proxy" {
		r.own = all - len(parts) + 3
	}
	switch {
	case r.Name == "" && r.Verb == "get" && isTrue(query["watch"]):
		r.Verb = "watch"
	case r.Name == "" && r.Verb == "get":
		r.Verb = "list"
	case r.Name == "" && r.Verb == "delete":
		r.Verb = "deletecollection"
	}
}

// isTrue reads a boolean parameter as apimachinery does: the first value counts, and all but two
// mean true, in any case folding of Unicode.
func isTrue(values []string) bool {
	return len(values) > 0 && !strings.EqualFold(values[0], "false") && values[0] != "0"
}

// folds reports whether a boolean parameter is false only by Unicode's case folding: the API server
// takes it for true if another parameter of the list is malformed.
func folds(values []string) bool {
	return !isTrue(values) && len(values) > 0 && values[0] != "0" && strings.ToLower(values[0]) != "false"
}

// impersonated describes the impersonated user, "" for none.
func impersonated(h http.Header) string { return strings.Join(impersonates(h, quoted), ", ") }

// Impersonates says one by one who a request with the headers h is to be taken for, for a
// person: the user first, then the groups, the system's before others. Values are as [Quote]
// has them. It is empty for nobody.
func Impersonates(h http.Header) []string {
	all := impersonates(h, Quote)
	weight := func(s string) int {
		switch {
		case strings.HasPrefix(s, `"`): // the user; all others begin with a header's name
			return 0
		case strings.HasPrefix(s, `Group "system:`):
			return 1
		case strings.HasPrefix(s, "Group "):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(all, func(a, b string) int { return weight(a) - weight(b) })
	return all
}

func impersonates(h http.Header, quote func(string) string) []string {
	var more []string
	for k, values := range h {
		if k == "Impersonate-User" || !strings.HasPrefix(strings.ToLower(k), "impersonate") {
			continue
		}
		for _, v := range values {
			more = append(more, strings.TrimPrefix(k, "Impersonate-")+" "+quote(v))
		}
	}
	slices.Sort(more)
	if users := h["Impersonate-User"]; users != nil {
		return append([]string{quote(strings.Join(users, ","))}, more...)
	}
	return more
}

// Word returns s as it is if s is one plain word, of ASCII letters, digits and . - _ /,
// which nobody can take for several. Anything else is quoted.
func Word(s string) string {
	if s == "" || strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(".-_/", c))
	}) {
		return quoted(s)
	}
	return s
}

// dryRunnable are the subresources that honour a dry run. Others act anyway: they mint a token or
// open a connection.
var dryRunnable = []string{"", "status", "scale", "resize", "ephemeralcontainers", "approval", "eviction"}

// ownGroups are the API groups of the API server itself. Any other may be an extension API
// server's, which need not know dry runs.
var ownGroups = []string{"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps",
	"autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
	"flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io",
	"resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io"}

// dryRun reports whether the API server takes the request for a dry run. If a deletion has options
// in its body, those in the query do not count.
func (r *Request) dryRun(values []string, hasBody bool) bool {
	if len(values) == 0 || r.Resource == "" || r.Connecting || !slices.Contains(dryRunnable, r.Subresource) ||
		!slices.Contains(ownGroups, r.Group) {
		return false
	}
	for _, v := range values {
		if v != "All" {
			return false
		}
	}
	switch r.Verb {
	case "create", "update", "patch":
		return true
	case "delete", "deletecollection":
		return !hasBody
	}
	return false
}

// odd is the reason why another server may read the request differently, "" if none may. Path
// segments after the first ones of our own only must not lead out of there.
func odd(method, target string, own int, h http.Header) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
	default:
		return "its method is not one of the API's"
	}
	for k := range h {
		if rewrites(k) {
			return "it carries the header " + k[:min(len(k), maxName)]
		}
	}
	// HTTP/2 takes them: a server's request line ends at a space, a URL at a fragment.
	if strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' }) {
		return "its path is ambiguous"
	}
	rawPath, _, _ := strings.Cut(target, "?")
	// Other headers that Connection names are taken off on the way: what was
	// judged would not be what arrives (RFC 9110 section 7.6.1).
	for _, v := range h["Connection"] {
		for option := range strings.SplitSeq(v, ",") {
			switch strings.ToLower(strings.TrimSpace(option)) {
			case "", "close", "keep-alive", "upgrade":
			default:
				return "its Connection header takes other headers away"
			}
		}
	}
	segments := strings.Split(strings.TrimSuffix(strings.TrimPrefix(rawPath, "/"), "/"), "/")
	for i, s := range segments {
		name, err := url.PathUnescape(s)
		if err != nil || climbs(name) {
			return "its path is ambiguous"
		}
		if i < own && len(name) > maxName {
			return "its path has a name that is too long"
		}
		if i < own && rawPath != "" && rawPath != "/" && !plain(s, name) {
			return "its path is ambiguous"
		}
	}
	return ""
}

// climbs finds "..", encoded any number of times.
func climbs(s string) bool {
	for range 4 {
		for part := range strings.FieldsFuncSeq(s, func(c rune) bool { return c == '/' || c == '\\' || c == ';' }) {
			if part == ".." {
				return true
			}
		}
		next, err := url.PathUnescape(s)
		if err != nil || next == s {
			return false
		}
		s = next
	}
	return true
}

// plain reports whether a segment can be read in one way only: no encoded separator, dot or percent
// sign, no parameter, no invisible character.
func plain(raw, name string) bool {
	if name == "" || name == "." || !utf8.ValidString(name) || strings.ContainsAny(name, "/\\%;?#") {
		return false
	}
	if strings.Contains(name, ".") && strings.Contains(strings.ToLower(raw), "%2e") {
		return false
	}
	for _, c := range name {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f {
			return false
		}
	}
	return true
}

// String words the request for a person: patch deployments.apps/scale "nginx" in
// "web". Names are in quotes that they cannot leave; what is outside of quotes, such
// as "(dry run)", is this function's own.
func (r Request) String() string {
	var b strings.Builder
	b.WriteString(r.verb() + " " + r.target(Word, quoted))
	if r.Resource != "" {
		if r.Name != "" {
			b.WriteString(" " + quoted(r.Name))
		}
		switch {
		case r.namespaced():
			b.WriteString(" in " + quoted(r.Namespace))
		case r.everywhere():
			b.WriteString(" everywhere")
		}
		if r.Path != "" {
			b.WriteString(" at " + quoted(r.Path))
		}
	}
	b.WriteString(r.how())
	if r.As != "" {
		b.WriteString(" as " + r.As)
	}
	return b.String()
}

// What is String without names: patch deployments.apps/scale (dry run). What is not a plain
// word is quoted as [Quote] does.
func (r Request) What() string { return r.verb() + " " + r.target(Name, Quote) + r.how() }

// Where is the namespace as [Quote] has it, "all namespaces" for a request that says none and
// concerns many objects, else "".
func (r Request) Where() string {
	switch {
	case r.namespaced():
		return Quote(r.Namespace)
	case r.everywhere():
		return "all namespaces"
	}
	return ""
}

func (r Request) verb() string {
	if r.Verb == "" {
		return "send"
	}
	return Word(r.Verb)
}

func (r Request) target(word, quote func(string) string) string {
	if r.Resource == "" {
		return quote(r.Path)
	}
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Subresource != "" {
		return word(resource) + "/" + word(r.Subresource)
	}
	return word(resource)
}

func (r Request) namespaced() bool {
	return r.Resource != "" && r.Namespace != "" && (r.Name == "" || r.Resource != "namespaces")
}

func (r Request) everywhere() bool {
	return r.Resource != "" && r.Namespace == "" && r.Name == "" &&
		(r.Verb == "list" || r.Verb == "watch" || r.Verb == "deletecollection")
}

func (r Request) how() string {
	s := ""
	if r.Protocol != "" && !slices.Contains(connecting, r.Subresource) {
		s = " (over " + Word(r.Protocol) + ")"
	}
	if r.DryRun {
		s += " (dry run)"
	}
	return s
}
