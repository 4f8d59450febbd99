// Package flowtest has folders, tokens and an API server for the tests of use cases and of the
// screens that show them. It knows no use case.
package flowtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/test/must"
)

// Object is an object of an API server, as its JSON reads.
type Object = map[string]any

// The collections that tests put objects into.
const (
	Requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	Secrets  = "/api/v1/namespaces/kube-system/secrets"
)

// Server speaks the API server's JSON: it keeps any kind of objects, with their
// versions, preconditions and watch streams. It takes whoever has no certificate for
// the user that it is told, everybody may do everything but what is forbidden, and it
// signs nothing.
type Server struct {
	*httptest.Server
	t testing.TB

	mu        sync.Mutex
	user      string
	groups    []string
	objects   map[string]Object // objects by path
	events    []event
	version   int
	minor     string        // Kubernetes' minor version
	changed   chan struct{} // channel closed and replaced at every change
	forbidden map[string]bool
	others    map[string]bool // users and groups who may do everything, see Trust
	broken    int             // answer everything with this status, if not 0
	before    func(right string) Fate
	asked     []string
	control   func(request Object) Object // the cluster's change to each request; may be nil
}

type event struct {
	version          int
	kind, collection string
	object           Object
}

// New returns a server that takes everybody for user, and ends with the test.
func New(t testing.TB, user string, groups ...string) *Server {
	s := &Server{t: t, user: user, groups: groups, objects: map[string]Object{}, version: 100, minor: "37",
		changed: make(chan struct{}), forbidden: map[string]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, // clusters that take client certificates do so
		Certificates: []tls.Certificate{certificate()}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // about clients that go
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// certificate is every server's own: with httptest's RSA key, most of a test's time is handshakes.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"flowtest"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// convert makes something else of what has the same JSON.
func convert(t testing.TB, from, to any) {
	t.Helper()
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	must.OK(t, err)
}

// Minor has the server say that it is this minor version of Kubernetes 1.
func (s *Server) Minor(minor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minor = minor
}

// Put stores an object in a collection under its name, as nobody in particular.
func (s *Server) Put(collection string, o any) {
	s.t.Helper()
	var object Object
	convert(s.t, o, &object)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(collection, name(object), object)
}

// Get reads an object into into. It tells whether it is there.
func (s *Server) Get(collection, name string, into any) bool {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[collection+"/"+name]
	if !ok {
		return false
	}
	convert(s.t, o, into)
	return true
}

// Names lists what is in a collection, sorted.
func (s *Server) Names(collection string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for path := range s.objects {
		if n, ok := strings.CutPrefix(path, collection+"/"); ok && !strings.Contains(n, "/") {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// Delete removes an object.
func (s *Server) Delete(collection, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(collection, name)
}

func meta(o Object) Object {
	m, ok := o["metadata"].(Object)
	if !ok {
		m = Object{}
		o["metadata"] = m
	}
	return m
}

func name(o Object) string {
	n, _ := meta(o)["name"].(string)
	return n
}

func (s *Server) store(collection, name string, o Object) Object {
	s.version++
	kind, path, m := "ADDED", collection+"/"+name, meta(o)
	if old := s.objects[path]; old != nil {
		kind = "MODIFIED"
		m["uid"], m["creationTimestamp"] = meta(old)["uid"], meta(old)["creationTimestamp"]
	}
	m["name"], m["resourceVersion"] = name, strconv.Itoa(s.version)
	if m["uid"] == nil || m["uid"] == "" {
		m["uid"] = fmt.Sprintf("uid-%d", s.version)
	}
	if m["creationTimestamp"] == nil {
		m["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	}
	s.objects[path] = o
	s.tell(event{s.version, kind, collection, o})
	return o
}

func (s *Server) remove(collection, name string) {
	if o := s.objects[collection+"/"+name]; o != nil {
		delete(s.objects, collection+"/"+name)
		s.version++
		s.tell(event{s.version, "DELETED", collection, o})
	}
}

func (s *Server) tell(e event) {
	o := maps.Clone(e.object)
	o["metadata"] = maps.Clone(meta(e.object))
	e.object = o
	s.events = append(s.events, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

// target is what a request's path names.
type target struct{ version, collection, resource, name, sub string }

// parse takes a path apart: /api/v1 or /apis/GROUP/VERSION, perhaps
// /namespaces/NAME, and then the resource.
func parse(path string) (t target, ok bool) {
	if path == "/version" {
		return target{collection: path, resource: path, name: "version"}, true
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := 2
	if parts[0] == "apis" {
		n = 3
	}
	if len(parts) <= n || parts[0] != "api" && parts[0] != "apis" {
		return t, false
	}
	t.version = strings.Join(parts[1:n], "/")
	if len(parts) > n+2 && parts[n] == "namespaces" {
		n += 2
	}
	t.collection, t.resource = "/"+strings.Join(parts[:n+1], "/"), parts[n]
	if len(parts) > n+1 {
		t.name = parts[n+1]
	}
	if len(parts) > n+2 {
		t.sub = parts[n+2]
	}
	return t, true
}

// lists tells whether an object at path is in the collection that t names, perhaps
// of all namespaces.
func (t target) lists(path string) bool {
	o, ok := parse(path)
	return ok && (o.collection == t.collection || o.resource == t.resource &&
		!strings.Contains(t.collection, "/namespaces/") &&
		strings.HasPrefix(o.collection, strings.TrimSuffix(t.collection, t.resource)+"namespaces/"))
}

func verb(r *http.Request, t target) string {
	switch {
	case r.Method == http.MethodGet && t.name == "" && r.URL.Query().Get("watch") != "":
		return "watch"
	case r.Method == http.MethodGet && t.name == "":
		return "list"
	}
	return map[string]string{"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch",
		"DELETE": "delete"}[r.Method]
}

// rightOf names what a verb on t needs.
func rightOf(verb string, t target) string {
	if t.sub != "" {
		return verb + " " + t.resource + "/" + t.sub
	}
	return verb + " " + t.resource
}

// respond answers with a status if that is not 0, else as the objects are.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, status int) {
	t, ok := parse(r.URL.Path)
	s.mu.Lock()
	defer s.mu.Unlock()
	do := verb(r, t)
	switch {
	case status != 0:
		s.fail(w, status, http.StatusText(status), t)
	case s.broken != 0:
		s.fail(w, s.broken, http.StatusText(s.broken), t)
	case !ok:
		s.fail(w, http.StatusNotFound, "NotFound", t)
	case strings.HasPrefix(t.resource, "selfsubject"):
		s.review(w, r, t)
	case s.forbidden[rightOf(do, t)]:
		s.fail(w, http.StatusForbidden, "Forbidden", t)
	case t.resource == "subjectaccessreviews":
		s.judge(w, r)
	case t.resource == "/version":
		s.answer(w, http.StatusOK, Object{"major": "1", "minor": s.minor})
	case do == "watch":
		s.watch(w, r, t)
	case do == "list":
		s.list(w, r, t)
	default:
		s.object(w, r, t, do)
	}
}

// review says who the user is and what is allowed.
func (s *Server) review(w http.ResponseWriter, r *http.Request, t target) {
	asked := s.body(r)
	switch t.resource {
	case "selfsubjectreviews":
		user, groups := s.user, s.groups
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			subject := r.TLS.PeerCertificates[0].Subject
			user, groups = subject.CommonName, append(subject.Organization, "system:authenticated")
		}
		asked["status"] = Object{"userInfo": Object{"username": user, "groups": groups}}
		asked["metadata"] = Object{"creationTimestamp": time.Now().UTC().Format(time.RFC3339)}
	case "selfsubjectrulesreviews":
		every := []string{"*"}
		rules := []Object{{"verbs": every, "apiGroups": every, "resources": every}}
		if s.forbidden["*"] {
			rules = []Object{}
		}
		asked["status"] = Object{"resourceRules": rules, "nonResourceRules": []Object{}, "incomplete": false}
	default:
		spec, _ := asked["spec"].(Object)
		a, _ := spec["resourceAttributes"].(Object)
		right := fmt.Sprint(a["verb"], " ", a["resource"])
		if sub, _ := a["subresource"].(string); sub != "" {
			right += "/" + sub
		}
		asked["status"] = Object{"allowed": !s.forbidden[right]}
	}
	s.answer(w, http.StatusCreated, asked)
}

// body reads an object; JSON is YAML too, which objects to apply are in.
func (s *Server) body(r *http.Request) Object {
	o := Object{}
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = yaml.Unmarshal(raw, &o)
	}
	if err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	return o
}

// listKind is the kind of a list of a resource.
func listKind(resource string) string {
	return map[string]string{
		"certificatesigningrequests": "CertificateSigningRequestList", "secrets": "SecretList",
		"clusterroles": "ClusterRoleList", "roles": "RoleList",
		"clusterrolebindings": "ClusterRoleBindingList", "rolebindings": "RoleBindingList",
		"validatingadmissionpolicies":       "ValidatingAdmissionPolicyList",
		"validatingadmissionpolicybindings": "ValidatingAdmissionPolicyBindingList",
	}[resource]
}

func selects(selector string, o Object) bool {
	spec, _ := o["spec"].(Object)
	for _, term := range strings.Split(selector, ",") {
		key, want, _ := strings.Cut(term, "=")
		if key == "metadata.name" && want != name(o) || key == "spec.signerName" && want != spec["signerName"] ||
			key == "type" && want != o["type"] {
			return false
		}
	}
	return true
}

// list answers with all pages in one.
func (s *Server) list(w http.ResponseWriter, r *http.Request, t target) {
	paths := slices.Sorted(maps.Keys(s.objects))
	items := []Object{}
	for _, path := range paths {
		if o := s.objects[path]; t.lists(path) && selects(r.URL.Query().Get("fieldSelector"), o) {
			items = append(items, o)
		}
	}
	s.answer(w, http.StatusOK, Object{"apiVersion": t.version, "kind": listKind(t.resource),
		"metadata": Object{"resourceVersion": strconv.Itoa(s.version)}, "items": items})
}

// watch streams what is there as added, or what came after a version.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, t target) {
	q := r.URL.Query()
	from, err := strconv.Atoi(q.Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	send := func(kind string, o Object) {
		if selects(q.Get("fieldSelector"), o) {
			_ = json.NewEncoder(w).Encode(Object{"type": kind, "object": o}) // a client that has gone is no failure
		}
	}
	if err != nil {
		from = s.version
		for path, o := range s.objects {
			if strings.HasPrefix(path, t.collection+"/") {
				send("ADDED", o)
			}
		}
	}
	for {
		for _, e := range s.events {
			if e.version > from && e.collection == t.collection {
				send(e.kind, e.object)
			}
		}
		from = s.version
		changed := s.changed
		w.(http.Flusher).Flush()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		s.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
	}
}

func (s *Server) object(w http.ResponseWriter, r *http.Request, t target, do string) {
	old := s.objects[t.collection+"/"+t.name]
	if old == nil && do != "create" && do != "patch" {
		s.fail(w, http.StatusNotFound, "NotFound", t)
		return
	}
	if do == "get" {
		s.answer(w, http.StatusOK, old)
		return
	}
	in := s.body(r)
	if do == "delete" {
		if p, ok := in["preconditions"].(Object); ok && p["uid"] != nil && p["uid"] != meta(old)["uid"] {
			s.fail(w, http.StatusConflict, "Conflict", t)
			return
		}
		s.remove(t.collection, t.name)
		s.answer(w, http.StatusOK, Object{"apiVersion": "v1", "kind": "Status", "status": "Success"})
		return
	}
	if t.name = fullName(t.name, in, s.version); do == "create" && s.objects[t.collection+"/"+t.name] != nil {
		s.fail(w, http.StatusConflict, "AlreadyExists", t)
		return
	}
	if version := meta(in)["resourceVersion"]; do == "update" && version != nil && version != meta(old)["resourceVersion"] {
		s.fail(w, http.StatusConflict, "Conflict", t)
		return
	}
	switch {
	case do == "create" && t.resource == "certificatesigningrequests":
		spec, _ := in["spec"].(Object)
		spec["username"], spec["groups"] = s.user, s.groups
		delete(in, "status")
	case do == "create" && t.resource == "secrets":
		encode(in)
	case t.sub != "": // the status is changed, and nothing else
		next := maps.Clone(old)
		next["metadata"] = maps.Clone(meta(old))
		next["status"] = in["status"]
		in = next
	}
	if s.control != nil && t.resource == "certificatesigningrequests" {
		in = s.control(in)
	}
	if words := s.enforced(t); words != "" {
		s.answer(w, http.StatusForbidden, Object{"apiVersion": "v1", "kind": "Status", "status": "Failure",
			"code": http.StatusForbidden, "reason": "Forbidden", "message": words})
		return
	}
	if r.URL.Query().Get("dryRun") == "" {
		in = s.store(t.collection, t.name, in)
	}
	s.answer(w, http.StatusOK, in)
}

// enforced is what a policy of package revocation says to the dry run that asks for it, ""
// for all other targets.
func (s *Server) enforced(t target) string {
	name, asks := strings.CutPrefix(t.name, "kubehsm-probe-")
	policy := s.objects["/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/"+name]
	if t.resource != "configmaps" || !asks || policy == nil {
		return ""
	}
	spec, _ := policy["spec"].(Object)
	rules, _ := spec["validations"].([]any)
	for _, r := range rules {
		if r, ok := r.(Object); ok && r["message"] != nil {
			return fmt.Sprint(r["message"])
		}
	}
	return ""
}

// fullName is the name that a path or an object has, or a new one where only its
// beginning is given.
func fullName(named string, o Object, version int) string {
	if named == "" {
		named = name(o)
	}
	if prefix, _ := meta(o)["generateName"].(string); named == "" {
		named = prefix + strconv.Itoa(version)
	}
	return named
}

// encode puts what a secret was given as text where its data is.
func encode(secret Object) {
	text, _ := secret["stringData"].(Object)
	data, _ := secret["data"].(Object)
	if data == nil {
		data = Object{}
	}
	for k, v := range text {
		data[k] = []byte(fmt.Sprint(v)) // the JSON of bytes is base64
	}
	delete(secret, "stringData")
	secret["data"] = data
}

func (s *Server) answer(w http.ResponseWriter, code int, o Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(o); err != nil && s.t.Context().Err() == nil {
		s.t.Log(err) // the client has gone
	}
}

func (s *Server) fail(w http.ResponseWriter, code int, reason string, t target) {
	s.answer(w, code, Object{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": strings.ReplaceAll(reason, " ",
			""),
		"message": fmt.Sprintf("%s %q: %s for user %q", t.resource, t.name, reason, s.user),
		"details": Object{"name": t.name, "kind": t.resource},
	})
}
