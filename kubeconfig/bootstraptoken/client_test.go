package bootstraptoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// fakeSecrets is the API server's side of Secrets in kube-system.
type fakeSecrets struct {
	t       *testing.T
	mu      sync.Mutex
	secrets []corev1.Secret
	calls   []string
	status  int  // answer everything with it
	stale   bool // answer the next page after the first with 410
}

const secretsPath = "/api/v1/namespaces/kube-system/secrets"

func (f *fakeSecrets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, r.Method+" "+r.URL.Path)
	if f.status != 0 {
		f.fail(w, f.status, http.StatusText(f.status))
		return
	}
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, secretsPath), "/")
	switch {
	case !strings.HasPrefix(r.URL.Path, secretsPath):
		f.t.Errorf("unexpected call %s %s", r.Method, r.URL)
		f.fail(w, 404, "NotFound")
	case r.Method == http.MethodPost:
		var s corev1.Secret
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			f.t.Error(err)
		}
		if f.find(s.Name) >= 0 {
			f.fail(w, 409, "AlreadyExists")
			return
		}
		f.secrets = append(f.secrets, s)
		f.write(w, 201, s)
	case name == "":
		f.list(w, r)
	case f.find(name) < 0:
		f.fail(w, 404, "NotFound")
	case r.Method == http.MethodDelete:
		i := f.find(name)
		f.secrets = append(f.secrets[:i], f.secrets[i+1:]...)
		f.write(w, 200, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
	default:
		f.write(w, 200, f.secrets[f.find(name)])
	}
}

// list gives the secrets one a page.
func (f *fakeSecrets) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if got := q.Get("fieldSelector"); got != "type=bootstrap.kubernetes.io/token" {
		f.t.Errorf("field selector %q", got)
	}
	if q.Get("limit") != "200" {
		f.t.Errorf("limit %q", q.Get("limit"))
	}
	at := 0
	if c := q.Get("continue"); c != "" {
		if f.stale {
			f.stale = false
			f.fail(w, 410, "Expired")
			return
		}
		if _, err := fmt.Sscan(c, &at); err != nil {
			f.t.Error(err)
		}
	}
	list := corev1.SecretList{TypeMeta: metav1.TypeMeta{Kind: "SecretList", APIVersion: "v1"}}
	if at < len(f.secrets) {
		list.Items = f.secrets[at : at+1]
	}
	if at+1 < len(f.secrets) {
		list.Continue = fmt.Sprint(at + 1)
	}
	f.write(w, 200, list)
}

func (f *fakeSecrets) find(name string) int {
	for i := range f.secrets {
		if f.secrets[i].Name == name {
			return i
		}
	}
	return -1
}

func (f *fakeSecrets) fail(w http.ResponseWriter, code int, reason string) {
	f.write(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
		Code: int32(code), Reason: metav1.StatusReason(strings.ReplaceAll(reason, " ", "")), Message: "the server's words",
	})
}

func (f *fakeSecrets) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		f.t.Error(err)
	}
}

func newFake(t *testing.T) (*fakeSecrets, *Client) {
	f := &fakeSecrets{t: t}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := NewClient(&rest.Config{Host: server.URL, QPS: -1})
	must.OK(t, err)
	return f, c
}

func TestCreateGetDelete(t *testing.T) {
	f, c := newFake(t)
	want := kubeadmRecords(t)[0]
	must.OK(t, c.Create(t.Context(), want))
	if !want.Token.Equal(mustParse(t, example)) {
		t.Error("Create wiped the caller's token")
	}
	got, err := c.Get(t.Context(), exampleID)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}

	if err := c.Create(t.Context(), want); err != nil {
		t.Errorf("the same again: %v", err)
	}
	other := want
	other.Description = "another"
	if err := c.Create(t.Context(), other); !errors.Is(err, ErrExists) || hint.Of(err) == "" {
		t.Errorf("other terms: %v", err)
	}
	other = want
	other.Token = mustParse(t, "abcdef.xxxxxxxxxxxxxxxx")
	if err := c.Create(t.Context(), other); !errors.Is(err, ErrExists) {
		t.Errorf("other secret: %v", err)
	}
	if len(f.secrets) != 1 {
		t.Errorf("%d secrets", len(f.secrets))
	}

	must.OK(t, c.Delete(t.Context(), exampleID))
	if err := c.Delete(t.Context(), exampleID); !errors.Is(err, ErrNotFound) || hint.Of(err) == "" {
		t.Errorf("delete again: %v", err)
	}
	if _, err := c.Get(t.Context(), exampleID); !errors.Is(err, ErrNotFound) {
		t.Errorf("read again: %v", err)
	}
}

func TestBadInputIsNotSent(t *testing.T) {
	f, c := newFake(t)
	good := kubeadmRecords(t)[0]
	expired, invalid := good, good
	expired.Expires = time.Unix(1, 0)
	invalid.Groups = []string{"system:masters"}
	for name, err := range map[string]error{
		"expired": c.Create(t.Context(), expired), "invalid": c.Create(t.Context(), invalid), "empty": c.Create(t.Context(), Record{}),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"", "../x", example, "ABCDEF"} {
		if _, err := c.Get(t.Context(), id); !errors.Is(err, ErrMalformed) {
			t.Errorf("get %q: %v", id, err)
		}
		if err := c.Delete(t.Context(), id); !errors.Is(err, ErrMalformed) {
			t.Errorf("delete %q: %v", id, err)
		}
	}
	if len(f.calls) != 0 {
		t.Errorf("sent %q", f.calls)
	}
}

func TestList(t *testing.T) {
	f, c := newFake(t)
	records := kubeadmRecords(t)
	early := Record{Token: mustParse(t, "early0."+exampleSecret), Usages: []string{Signing},
		Expires: time.Unix(1000, 0).UTC()}
	for _, r := range []Record{records[1], records[0], early, records[2]} {
		s, err := r.Secret()
		must.OK(t, err)
		f.secrets = append(f.secrets, *s)
	}
	bad := *f.secrets[0].DeepCopy()
	bad.Name = "bootstrap-token-impost"
	f.secrets = append(f.secrets, bad)
	for _, stale := range []bool{false, true} {
		f.stale = stale
		got, ignored, err := c.List(t.Context())
		must.OK(t, err)
		if want := []Record{early, records[0], records[2], records[1]}; !reflect.DeepEqual(got, want) {
			t.Errorf("listed %+v", got)
		}
		if len(ignored) != 1 || ignored[0].Name != bad.Name || !errors.Is(ignored[0].Err, ErrNotToken) {
			t.Errorf("ignored %+v", ignored)
		}
	}
}

func TestListOfNothing(t *testing.T) {
	_, c := newFake(t)
	got, ignored, err := c.List(t.Context())
	if err != nil || len(got) != 0 || len(ignored) != 0 {
		t.Errorf("%v, %v, %v", got, ignored, err)
	}
}

func TestRefusals(t *testing.T) {
	for status, want := range map[int]error{403: ErrForbidden, 401: apierror.ErrUnauthorized} {
		f, c := newFake(t)
		f.status = status
		_, _, listErr := c.List(t.Context())
		_, getErr := c.Get(t.Context(), exampleID)
		for verb, err := range map[string]error{
			"create": c.Create(t.Context(), kubeadmRecords(t)[0]), "delete": c.Delete(t.Context(), exampleID), "list": listErr, "get": getErr,
		} {
			if !errors.Is(err, want) || hint.Of(err) == "" || leaks(err.Error()) {
				t.Errorf("%d on %s: %v", status, verb, err)
			}
			if status == 403 && !strings.Contains(hint.Of(err),
				fmt.Sprintf("%q on secrets in the namespace kube-system", verb)) {
				t.Errorf("%s: hint %q", verb, hint.Of(err))
			}
		}
	}
}

// TestRefusedByTheBridge: kubehsm's own refusal is not laid to missing rights.
func TestRefusedByTheBridge(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"kubehsm: no consent to list secrets"}`)
	}))
	defer server.Close()
	c, err := NewClient(&rest.Config{Host: server.URL})
	must.OK(t, err)
	_, _, err = c.List(t.Context())
	if err == nil || errors.Is(err, ErrForbidden) || hint.Of(err) != "" ||
		!strings.HasSuffix(err.Error(), ": not sent to the cluster: no consent to list secrets") {
		t.Errorf("%v (hint: %s)", err, hint.Of(err))
	}
}

func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c, err := NewClient(&rest.Config{Host: server.URL})
	must.OK(t, err)
	if err := c.Delete(t.Context(), exampleID); !errors.Is(err, apierror.ErrUnreachable) || hint.Of(err) == "" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Delete(ctx, exampleID); !errors.Is(err, context.Canceled) || errors.Is(err, apierror.ErrUnreachable) {
		t.Errorf("cancelled: %v", err)
	}
}
