package csr

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/test/must"
)

const basePath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// fakeAPI speaks the API server's JSON for requests, with its version numbers,
// preconditions, paging and watch streams, and can be stopped and restarted on
// its address. It stands in for no signer: tests set the status themselves.
type fakeAPI struct {
	t    *testing.T
	addr string

	mu      sync.Mutex
	server  *httptest.Server
	version int
	oldest  int // watches from before are answered 410
	objects map[string]*certificatesv1.CertificateSigningRequest
	events  []fakeEvent
	changed chan struct{} // closed and replaced at every change
	cut     chan struct{} // closed to end all streams
	watches chan string   // receives the resourceVersion of every watch begun
	// denied lists "verb resource[/sub][ name]" that RBAC refuses.
	denied []string
	// answer, if set, is asked first; true means it has answered.
	answer func(w http.ResponseWriter, r *http.Request) bool
}

type fakeEvent struct {
	version int
	kind    string
	object  *certificatesv1.CertificateSigningRequest
}

func newFake(t *testing.T) *fakeAPI {
	f := &fakeAPI{
		t: t, objects: map[string]*certificatesv1.CertificateSigningRequest{}, version: 100,
		changed: make(chan struct{}), cut: make(chan struct{}), watches: make(chan string, 1000),
	}
	f.start()
	t.Cleanup(f.stop)
	return f
}

func (f *fakeAPI) start() {
	f.t.Helper()
	addr := f.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	must.OK(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addr = l.Addr().String()
	f.cut = make(chan struct{})
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.server.Listener.Close()
	f.server.Listener = l
	f.server.Start()
}

// stop is a kill -9: connections break, the address refuses.
func (f *fakeAPI) stop() {
	f.mu.Lock()
	s := f.server
	f.server = nil
	f.mu.Unlock()
	if s == nil {
		return
	}
	s.Listener.Close()
	s.CloseClientConnections()
	f.dropWatches()
	s.Close()
}

// dropWatches ends all open streams.
func (f *fakeAPI) dropWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.cut)
	f.cut = make(chan struct{})
}

// compact forgets all events up to now.
func (f *fakeAPI) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.oldest = f.version
	f.events = nil
}

func (f *fakeAPI) client() *Client {
	f.t.Helper()
	c, err := NewClient(&rest.Config{Host: "http://" + f.addr, QPS: -1})
	must.OK(f.t, err)
	return c
}

// put stores obj under a new version and tells the watchers.
func (f *fakeAPI) put(obj *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.store(obj)
}

func (f *fakeAPI) store(obj *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	obj = obj.DeepCopy()
	f.version++
	obj.ResourceVersion = strconv.Itoa(f.version)
	obj.TypeMeta = metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
	kind := "MODIFIED"
	if f.objects[obj.Name] == nil {
		kind = "ADDED"
	}
	if obj.UID == "" {
		obj.UID = types.UID(fmt.Sprintf("uid-%d", f.version))
		obj.CreationTimestamp = metav1.Now()
	}
	f.objects[obj.Name] = obj
	f.emit(kind, obj)
	return obj.DeepCopy()
}

func (f *fakeAPI) emit(kind string, obj *certificatesv1.CertificateSigningRequest) {
	f.events = append(f.events, fakeEvent{f.version, kind, obj.DeepCopy()})
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeAPI) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	obj := f.objects[name].DeepCopy()
	delete(f.objects, name)
	f.version++
	obj.ResourceVersion = strconv.Itoa(f.version)
	f.emit("DELETED", obj)
}

// update changes the stored object with edit.
func (f *fakeAPI) update(name string, edit func(*certificatesv1.CertificateSigningRequest)) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	obj := f.objects[name].DeepCopy()
	edit(obj)
	f.store(obj)
}

func (f *fakeAPI) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	answer := f.answer
	f.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
		got := authenticationv1.SelfSubjectReview{}
		got.Status.UserInfo = authenticationv1.UserInfo{
			Username: "jane", Groups: []string{"dev", "system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
		}
		f.reply(w, http.StatusCreated, "authentication.k8s.io/v1", "SelfSubjectReview", &got)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		f.accessReview(w, r)
	case strings.HasPrefix(r.URL.Path, basePath):
		f.requests(w, r, strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, basePath), "/"), "/"))
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeAPI) accessReview(w http.ResponseWriter, r *http.Request) {
	var got authorizationv1.SelfSubjectAccessReview
	f.decode(r, &got)
	a := got.Spec.ResourceAttributes
	got.Status.Allowed = f.allowed(a.Verb, a.Resource, a.Subresource, a.Name)
	f.reply(w, http.StatusCreated, "authorization.k8s.io/v1", "SelfSubjectAccessReview", &got)
}

func (f *fakeAPI) allowed(verb, resource, sub, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := verb + " " + resource
	if sub != "" {
		key += "/" + sub
	}
	return !slices.Contains(f.denied, key) && !slices.Contains(f.denied, key+" "+name)
}

func (f *fakeAPI) requests(w http.ResponseWriter, r *http.Request, path []string) {
	name, sub := path[0], ""
	if len(path) > 1 {
		sub = path[1]
	}
	verb := map[string]string{"POST": "create", "PUT": "update", "DELETE": "delete", "GET": "get"}[r.Method]
	if r.Method == "GET" && name == "" {
		verb = "list"
		if r.URL.Query().Get("watch") != "" {
			verb = "watch"
		}
	}
	if !f.allowed(verb, resource, sub, name) {
		f.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, name,
			`certificatesigningrequests.certificates.k8s.io is forbidden: User "jane" cannot `+verb+` resource`)
		return
	}
	switch verb {
	case "watch":
		f.watch(w, r)
	case "list":
		f.list(w, r)
	default:
		f.object(w, r, verb, name)
	}
}

func (f *fakeAPI) object(w http.ResponseWriter, r *http.Request, verb, name string) {
	var in certificatesv1.CertificateSigningRequest
	if verb == "create" || verb == "update" {
		f.decode(r, &in)
		name = in.Name
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.objects[name]
	switch {
	case verb == "create" && old != nil:
		f.fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, name, "already exists")
	case verb == "create":
		in.Spec.Username, in.Status = "jane", certificatesv1.CertificateSigningRequestStatus{}
		f.reply(w, http.StatusCreated, "", "", f.store(&in))
	case old == nil:
		f.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, name,
			`certificatesigningrequests.certificates.k8s.io "`+name+`" not found`)
	case verb == "get":
		f.reply(w, http.StatusOK, "", "", old)
	case verb == "update":
		if in.UID != old.UID || in.ResourceVersion != old.ResourceVersion {
			f.fail(w, http.StatusConflict, metav1.StatusReasonConflict, name, "the object has been modified")
			return
		}
		next := old.DeepCopy()
		next.Status.Conditions = in.Status.Conditions
		f.reply(w, http.StatusOK, "", "", f.store(next))
	case verb == "delete":
		var opts metav1.DeleteOptions
		f.decode(r, &opts)
		if p := opts.Preconditions; p != nil && *p.UID != old.UID {
			f.fail(w, http.StatusConflict, metav1.StatusReasonConflict, name, "precondition failed: UID")
			return
		}
		delete(f.objects, name)
		f.version++
		f.emit("DELETED", old)
		f.reply(w, http.StatusOK, "v1", "Status", &metav1.Status{Status: "Success"})
	}
}

func (f *fakeAPI) send(w http.ResponseWriter, kind string, obj any) {
	raw, err := json.Marshal(obj)
	if err != nil {
		f.t.Error(err)
	}
	// A client that has gone is no failure of the test.
	_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": json.RawMessage(raw)})
}

func (f *fakeAPI) decode(r *http.Request, into any) {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		f.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
}

func (f *fakeAPI) reply(w http.ResponseWriter, code int, api, kind string, obj any) {
	raw, err := json.Marshal(obj)
	if err != nil {
		f.t.Error(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		f.t.Error(err)
	}
	if kind != "" {
		m["apiVersion"], m["kind"] = api, kind
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(m)
}

func (f *fakeAPI) status(code int, reason metav1.StatusReason, name, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Name: name, Group: "certificates.k8s.io", Kind: "certificatesigningrequests"},
	}
}

func (f *fakeAPI) fail(w http.ResponseWriter, code int, reason metav1.StatusReason, name, message string) {
	f.reply(w, code, "v1", "Status", f.status(code, reason, name, message))
}

// newKey is a P-256 key; the tests that care for others make their own.
func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	return k
}

func newPEM(t *testing.T, key crypto.Signer, s Subject) []byte {
	t.Helper()
	data, err := NewRequest(key, s, RequestOptions{})
	must.OK(t, err)
	return data
}
