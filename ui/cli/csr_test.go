package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// apiServer is as much of an API server as the csr commands need to be tried
// without a cluster; the real one is in test/scenarios.
type apiServer struct {
	mu        sync.Mutex
	objects   map[string]*certificatesv1.CertificateSigningRequest
	forbidden bool
	broken    bool // cannot create
}

const csrPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, csrPath+"/"), "/approval")
	obj := s.objects[name]
	switch {
	case s.forbidden && strings.HasPrefix(r.URL.Path, csrPath):
		refuse(w, 403, metav1.StatusReasonForbidden, "no")
	case s.forbidden && strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		_, _ = w.Write([]byte(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{}}`))
	case r.Method == "GET" && r.URL.Path == csrPath:
		list := certificatesv1.CertificateSigningRequestList{}
		for _, o := range s.objects {
			list.Items = append(list.Items, *o)
		}
		_ = json.NewEncoder(w).Encode(list)
	case r.Method == "POST" && r.URL.Path == csrPath && s.broken:
		refuse(w, 500, metav1.StatusReasonInternalError, "out of order")
	case r.Method == "POST" && r.URL.Path == csrPath:
		obj := &certificatesv1.CertificateSigningRequest{}
		_ = json.NewDecoder(r.Body).Decode(obj)
		obj.UID, obj.ResourceVersion, obj.Spec.Username = "new", "1", "jane-now"
		s.objects[obj.Name] = obj
		w.WriteHeader(201)
		_ = json.NewEncoder(w).Encode(obj)
	case r.Method == "GET" && obj != nil:
		_ = json.NewEncoder(w).Encode(obj)
	case r.Method == "PUT" && obj != nil:
		_ = json.NewDecoder(r.Body).Decode(obj)
		_ = json.NewEncoder(w).Encode(obj)
	case strings.HasPrefix(r.URL.Path, csrPath+"/"):
		refuse(w, 404, metav1.StatusReasonNotFound, "not found", name)
	default:
		refuse(w, 404, metav1.StatusReasonNotFound, "not found")
	}
}

// refuse answers with a failure, which names the object that is not there.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string, object ...string) {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
	if len(object) > 0 {
		s.Details = &metav1.StatusDetails{Name: object[0]}
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(s)
}

// cluster starts an API server with one pending request and makes it the
// kubeconfig's current context.
func (b *bench) cluster() *apiServer {
	b.t.Helper()
	slot, _ := b.keyWithCertificate()
	token, err := b.fake.Open(b.t.Context(), slot.URI)
	must.OK(b.t, err)
	signer, err := token.Signer(b.t.Context(), slot.URI, nil, b.ask)
	must.OK(b.t, err)
	request, err := csr.NewRequest(signer, csr.Subject{User: "jane", Groups: []string{"dev"}}, csr.RequestOptions{})
	must.OK(b.t, err)
	s := &apiServer{objects: map[string]*certificatesv1.CertificateSigningRequest{"jane-1": {
		TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "jane-1", UID: "u1", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)),
			Annotations: map[string]string{csr.ReasonAnnotation: "please\x1b[2J"},
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: csr.ClientSigner, Username: "jane-now",
			Usages: []certificatesv1.KeyUsage{"client auth"},
		},
	}}}
	server := httptest.NewTLSServer(s)
	b.t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "%s", certificate-authority-data: %s}}]
users: [{name: u, user: {token: geheim}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, server.URL, base64.StdEncoding.EncodeToString(ca))
	must.OK(b.t, os.WriteFile(filepath.Join(b.home, "kubeconfig"), []byte(config), 0o600))
	return s
}

func TestCSRListAndShow(t *testing.T) {
	b := newBench(t)
	b.cluster()
	if out := b.ok("csr", "list"); !strings.Contains(out, "jane-1   60m   ") || !strings.Contains(out, "jane-now") {
		t.Errorf("%s", out)
	}
	requests := document(t, b.ok("csr", "list", "-o", "json"))["requests"].([]any)
	if len(requests) != 1 || requests[0].(map[string]any)["user"] != "jane" {
		t.Errorf("%v", requests)
	}
	out := b.ok("csr", "show", "jane-1")
	for _, want := range []string{`please\x1b[2J`, "Asked by:", "jane-now", "dev", "warning: ", `in the name of "jane"`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	b.fails(1, "not found", "csr", "show", "other")
	b.fails(1, "no such context", "csr", "list", "--context", "other")
}

func TestCSRDecide(t *testing.T) {
	b := newBench(t)
	s := b.cluster()
	b.ask = hsmtest.NewScript(t, hsmtest.No())
	b.fails(130, "nothing was changed", "csr", "approve", "jane-1")
	if n := len(s.objects["jane-1"].Status.Conditions); n != 0 {
		t.Fatalf("%d conditions after a no", n)
	}
	asked := hsm.ConfirmPrompt{}
	b.ask = ask.Func(func(_ context.Context, q ask.Question) (ask.Answer, error) {
		asked = *q.Confirm
		return ask.Answer{Yes: asked.Accepts("jane")}, nil
	}).Prompter()
	code, out, errs := b.run("csr", "approve", "jane-1", "--message", "on the phone")
	if asked.Accepts("y") || !strings.Contains(asked.Wanted, "jane") {
		t.Errorf("asked: %+v", asked)
	}
	if code != 0 || !strings.Contains(errs, "Asked by:") || !strings.HasPrefix(out, "jane-1: ") {
		t.Fatalf("exit code %d, %q, %q", code, out, errs)
	}
	c := s.objects["jane-1"].Status.Conditions
	if len(c) != 1 || c[0].Type != certificatesv1.CertificateApproved || c[0].Message != "on the phone" {
		t.Errorf("%+v", c)
	}
	s.objects["jane-1"].Status.Conditions = nil
	const warned = "it has warnings, and nobody has answered them\nhint: read the warnings; then approve it in a terminal, " +
		"or with --words and the eight words that are read to you, or with --accept-risk user:jane\n"
	b.ask = hsmtest.NewScript(t)
	b.fails(5, warned, "csr", "approve", "jane-1", "--yes")
	b.ask = hsmtest.NewScript(t, hsmtest.Fail(hsm.ErrNoTerminal))
	b.fails(5, warned, "csr", "approve", "jane-1")
	b.fails(2, "names the user \"joe\", but the request is for \"jane\"", "csr", "approve", "jane-1", "--yes",
		"--accept-risk", "user:joe")
	b.fails(2, "use mismatch, revoked or user:NAME", "csr", "approve", "jane-1", "--accept-risk", "jane")
	if n := len(s.objects["jane-1"].Status.Conditions); n != 0 {
		t.Fatalf("%d conditions although the warnings were not answered", n)
	}
	b.ok("csr", "approve", "jane-1", "--yes", "--accept-risk", "user:jane")
	b.fails(1, "error: ", "csr", "deny", "jane-1", "--yes")
	if _, _, errs := b.run("csr", "deny", "jane-1", "--yes"); strings.Contains(errs, "is not made") {
		t.Errorf("an approved request is told to come to nothing: %q", errs)
	}
}

func TestCSRCreate(t *testing.T) {
	b := newBench(t)
	s := b.cluster()
	key := "pkcs11:token=trial;object=prod"
	doc := document(t, b.ok("csr", "create", "--key", key, "--user", "jane", "--group", "ops", "--name", "mine",
		"--expiration", "1h", "-o", "json"))
	if doc["name"] != "mine" || doc["user"] != "jane" || fmt.Sprint(doc["groups"]) != "[ops]" ||
		doc["expiration"] != "1h0m0s" || s.objects["mine"] == nil {
		t.Errorf("%v", doc)
	}
	b.fails(3, hsm.ErrNoToken.Error(), "csr", "create", "--key", "pkcs11:token=other;object=x", "--user", "jane")
	s.forbidden = true
	code, out, errs := b.run("csr", "create", "--key", key, "--user", "jane")
	if code != 1 || out != "" || !strings.Contains(errs, "hint: send the lines below to an admin") ||
		!strings.Contains(errs, "CertificateSigningRequest") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
}

func TestCSRWait(t *testing.T) {
	b := newBench(t)
	s := b.cluster()
	s.objects["jane-1"].Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateDenied, Status: "True", Reason: "No", Message: "not you",
	}}
	b.fails(1, "not you", "csr", "wait", "jane-1")
	s.objects["jane-1"].Status.Conditions = nil
	b.fails(124, "timed out", "csr", "wait", "jane-1", "--timeout", "300ms")
}

// TestCSRRecords: a request that could not be filed is on record, and is filed
// as it was signed; its name is not taken for another.
func TestCSRRecords(t *testing.T) {
	b := newBench(t)
	s := b.cluster()
	s.broken = true
	args := []string{"csr", "create", "--key", "pkcs11:token=trial;object=prod", "--user", "jane", "--name", "mine"}
	b.fails(1, "out of order", args...)
	out := b.ok("csr", "list", "--mine")
	if !strings.Contains(out, "mine") || !strings.Contains(out, "not filed") || strings.Contains(out, "jane-1") {
		t.Errorf("%s", out)
	}
	s.broken = false
	b.ok("csr", "resume", "mine")
	filed := s.objects["mine"].Spec.Request
	if out := b.ok("csr", "list", "--mine"); !strings.Contains(out, "pending") {
		t.Errorf("%s", out)
	}
	s.forbidden = true // if the cluster does not say, the record does
	code, out, errs := b.run("csr", "list", "--mine")
	if s.forbidden = false; code != 1 || !strings.Contains(out, "mine") || !strings.Contains(out, "unknown") ||
		!strings.Contains(errs, "you are not allowed to") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	b.fails(1, "made here before", args...)
	if string(s.objects["mine"].Spec.Request) != string(filed) {
		t.Error("another request took its place")
	}
	s.objects["mine"].UID = "replaced"
	if out := b.ok("csr", "list", "--mine"); !strings.Contains(out, "gone") {
		t.Errorf("%s", out)
	}
	b.ok("csr", "cancel", "mine") // the other is left alone
	if s.objects["mine"] == nil {
		t.Error("another's request was deleted")
	}
	if out := b.ok("csr", "list", "--mine"); out != "There are no requests.\n" {
		t.Errorf("%s", out)
	}
	b.fails(1, "no request", "csr", "resume", "mine")
	b.fails(2, "RFC 1123", "csr", "resume", "../mine")
}

// TestCSRListFormats: what is streamed is one document all the same.
func TestCSRListFormats(t *testing.T) {
	b := newBench(t)
	s := b.cluster()
	second := s.objects["jane-1"].DeepCopy()
	second.Name = "jane-2"
	second.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied,
		Status: "True"}}
	s.objects["jane-2"] = second
	for args, want := range map[string]int{"": 2, "--pending": 1} {
		line := append([]string{"csr", "list", "-o", "json"}, strings.Fields(args)...)
		fromJSON := document(t, b.ok(line...))["requests"].([]any)
		line[3] = "yaml"
		var fromYAML struct{ Requests []any }
		must.OK(t, yaml.Unmarshal([]byte(b.ok(line...)), &fromYAML))
		if len(fromJSON) != want || len(fromYAML.Requests) != want {
			t.Errorf("%q: %d and %d requests, want %d", args, len(fromJSON), len(fromYAML.Requests), want)
		}
	}
	if out := b.ok("csr", "list", "--pending"); strings.Contains(out, "jane-2") {
		t.Errorf("%s", out)
	}
	clear(s.objects)
	for format, want := range map[string]string{"json": "{\n  \"requests\": []\n}\n", "yaml": "requests: []\n"} {
		if out := b.ok("csr", "list", "-o", format); out != want {
			t.Errorf("%q, want %q", out, want)
		}
	}
}

// TestApproveProvenStopped: who stops between two approvals is told of the first.
func TestApproveProvenStopped(t *testing.T) {
	b := newBench(t)
	server := flowtest.New(t, "admin")
	flowtest.PointAt(t, &env.Env{Kubeconfig: filepath.Join(b.home, "kubeconfig")}, server.Server)
	maker := flowtest.NewMaker(t)
	root := filepath.Join(b.home, "maker.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: maker.Root.Raw})
	must.OK(t, os.WriteFile(root, text, 0o600))
	for i, user := range []string{"amy", "jane", "joe"} {
		serial := byte(i + 1)
		server.Put("/apis/kubehsm.github.io/v1alpha1/namespaces/"+clusterapi.Namespace+"/hardwaretokens", flowtest.Object{
			"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
			"metadata": flowtest.Object{"name": fmt.Sprint(serial), "namespace": clusterapi.Namespace},
			"spec":     flowtest.Object{"state": "Active", "owner": user}})
		key := maker.NewKey()
		pkcs10, err := csr.NewRequest(key, csr.Subject{User: user},
			csr.RequestOptions{ExtraExtensions: attest.Extensions(maker.Attest(key, serial))})
		must.OK(t, err)
		server.File(user+"-1", user, user, nil, func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = pkcs10 })
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	approvals := 0
	server.Before(func(right string) flowtest.Fate {
		if right == "update certificatesigningrequests/approval" {
			if approvals++; approvals == 2 {
				stop()
				return flowtest.Held
			}
		}
		return 0
	})
	code, out, errs := b.runWith(ctx, "csr", "approve", "--proven", "--yes", "--root", root)
	if code != ui.ExitInterrupted || !strings.Contains(out, "amy-1 for amy: approved\n") ||
		!strings.Contains(out, "jane-1 for jane: not approved") || strings.Contains(out, "joe") ||
		!strings.Contains(errs, "1 of 3 requests were not touched: cancelled") {
		t.Errorf("exit code %d, stdout\n%s\nstderr\n%s", code, out, errs)
	}
}
