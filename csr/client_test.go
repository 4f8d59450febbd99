package csr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/test/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestCreate(t *testing.T) {
	f := newFake(t)
	c := f.client()
	spec := Spec{Name: "a", Request: newPEM(t, newKey(t), Subject{User: "jane"}), Expiration: time.Hour}
	obj, err := c.Create(t.Context(), spec)
	if err != nil || obj.UID == "" || obj.Spec.Username != "jane" || string(obj.Spec.Request) != string(spec.Request) {
		t.Fatalf("%+v, %v", obj, err)
	}
	again, err := c.Create(t.Context(), spec)
	if err != nil || again.UID != obj.UID {
		t.Fatalf("the same once more: %v", err)
	}
	spec.Expiration = 2 * time.Hour
	if _, err := c.Create(t.Context(), spec); !errors.Is(err, ErrExists) {
		t.Fatalf("other terms: %v", err)
	}
	spec = Spec{Name: "a", Request: newPEM(t, newKey(t), Subject{User: "jane"})}
	if _, err := c.Create(t.Context(), spec); !errors.Is(err, ErrExists) {
		t.Fatalf("another key: %v", err)
	}
	if _, err := c.Create(t.Context(), Spec{Name: "b"}); err == nil {
		t.Fatal("sent a spec without a request")
	}
}

func TestCreateForbidden(t *testing.T) {
	f := newFake(t)
	f.denied = []string{"create " + resource, "get " + resource}
	_, err := f.client().Create(t.Context(), Spec{Name: "a", Request: newPEM(t, newKey(t), Subject{User: "jane"})})
	var e *ForbiddenError
	if !errors.As(err, &e) || e.User != "jane" || len(e.Missing) != 1 || !IsForbidden(err) {
		t.Fatalf("got %v", err)
	}
	want := "kubectl create clusterrole kubehsm-requester --verb=create,get --resource=certificatesigningrequests.certificates.k8s.io\n" +
		"kubectl create clusterrolebinding kubehsm-requester-jane-81f8f6 --clusterrole=kubehsm-requester --user=jane\n"
	if e.Grant() != want {
		t.Errorf("grant:\n%s", e.Grant())
	}
	if !strings.Contains(e.Hint(), "lines below") || strings.Contains(e.Hint(), "\n") {
		t.Errorf("hint %q", e.Hint())
	}
	missing, err := f.client().Rights().MayRequest(t.Context())
	if err != nil || len(missing) != 2 {
		t.Errorf("MayRequest: %v, %v", missing, err)
	}
}

// Admission refuses with the same code as RBAC; the rights are all there then.
func TestCreateRefusedByAdmission(t *testing.T) {
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" || !strings.HasPrefix(r.URL.Path, basePath) {
			return false
		}
		f.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "a", "a policy says no")
		return true
	}
	_, err := f.client().Create(t.Context(), Spec{Name: "a", Request: newPEM(t, newKey(t), Subject{User: "jane"})})
	var e *ForbiddenError
	if errors.As(err, &e) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "a policy says no") {
		t.Fatalf("got %v", err)
	}
}

// TestRefusedByTheBridge: what kubehsm's own bridge refuses is not laid to missing
// rights, whatever rights are missing, nor to a credential.
func TestRefusedByTheBridge(t *testing.T) {
	for _, c := range []struct {
		code   int
		reason metav1.StatusReason
	}{{http.StatusForbidden, metav1.StatusReasonForbidden}, {http.StatusUnauthorized, metav1.StatusReasonUnauthorized}} {
		f := newFake(t)
		f.denied = []string{"create certificatesigningrequests", "list certificatesigningrequests"}
		f.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, basePath) {
				return false
			}
			f.fail(w, c.code, c.reason, "a", "kubehsm: no consent to create it: it was refused")
			return true
		}
		_, err := f.client().Create(t.Context(), Spec{Name: "a", Request: newPEM(t, newKey(t), Subject{User: "jane"})})
		_, listErr := f.client().Page(t.Context(), ListOptions{})
		for _, err := range []error{err, listErr} {
			var forbidden *ForbiddenError
			if errors.As(err, &forbidden) || IsForbidden(err) || !errors.Is(err, apierror.ErrWithheld) ||
				!strings.HasSuffix(err.Error(), ": not sent to the cluster: no consent to create it: it was refused") {
				t.Errorf("%d: %v", c.code, err)
			}
		}
	}
}

func TestDelete(t *testing.T) {
	f := newFake(t)
	c := f.client()
	ref := RefOf(f.put(pending("a")))
	var conflict *ConflictError
	if err := c.Delete(t.Context(), Ref{Name: "a", UID: "other"}); !errors.As(err, &conflict) ||
		conflict.Change != Recreated {
		t.Fatalf("other UID: %v", err)
	}
	must.OK(t, c.Delete(t.Context(), ref))
	if err := c.Delete(t.Context(), ref); !errors.Is(err, ErrNotFound) {
		t.Fatalf("twice: %v", err)
	}
	if _, err := c.Get(t.Context(), "a"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("get: %v", err)
	}
}

func TestListPages(t *testing.T) {
	f := newFake(t)
	for i := range 25 {
		f.put(pending(fmt.Sprintf("a%02d", i)))
	}
	other := pending("other")
	other.Spec.SignerName = "example.com/x"
	f.put(other)
	var names []string
	for obj, err := range f.client().List(t.Context(), ListOptions{SignerName: ClientSigner, PageSize: 10}) {
		must.OK(t, err)
		names = append(names, obj.Name)
	}
	if len(names) != 25 || names[0] != "a00" || names[24] != "a24" {
		t.Errorf("got %q", names)
	}
	for range f.client().List(t.Context(), ListOptions{PageSize: 10}) {
		break // must not panic on leaving early
	}
}

func TestListExpiredPage(t *testing.T) {
	f := newFake(t)
	for i := range 5 {
		f.put(pending(fmt.Sprintf("a%d", i)))
	}
	gave := false
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		token := r.URL.Query().Get("continue")
		if token == "" || gave {
			return false
		}
		gave = true
		s := f.status(http.StatusGone, metav1.StatusReasonExpired, "", "the continue parameter is too old")
		s.Continue = "a1+" // sorts after a1, before a2: the server's inconsistent continuation
		f.reply(w, http.StatusGone, "v1", "Status", s)
		return true
	}
	n := 0
	for _, err := range f.client().List(t.Context(), ListOptions{PageSize: 2}) {
		must.OK(t, err)
		n++
	}
	if n != 5 || !gave {
		t.Errorf("%d items", n)
	}
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		f.fail(w, http.StatusGone, metav1.StatusReasonExpired, "", "too old")
		return true
	}
	for _, err := range f.client().List(t.Context(), ListOptions{}) {
		if !errors.Is(err, ErrExpired) {
			t.Errorf("got %v", err)
		}
	}
}

func TestIdentity(t *testing.T) {
	f := newFake(t)
	f.denied = []string{"approve signers " + ClientSigner}
	c := f.client().Rights()
	me, err := c.WhoAmI(t.Context())
	if err != nil || me.User != "jane" || len(me.Groups) != 2 || me.Extra["k"][0] != "v" {
		t.Errorf("%+v, %v", me, err)
	}
	if ok, err := c.CanI(t.Context(), "approve", "certificates.k8s.io", "signers", "", ClientSigner); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if err := c.CheckApprover(t.Context(), ClientSigner); err != nil {
		t.Errorf("the right on domain/* counts: %v", err)
	}
	f.denied = append(f.denied, "approve signers kubernetes.io/*")
	var lacking *ForbiddenError
	if err := c.CheckApprover(t.Context(), ClientSigner); !errors.As(err, &lacking) || len(lacking.Missing) != 1 {
		t.Errorf("%v", err)
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	for name, tt := range map[string]struct {
		code int
		body string
		want error
	}{
		"expired certificate": {401, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`, apierror.ErrUnauthorized},
		"not Kubernetes":      {404, "<html>nginx</html>", ErrNotServed},
		"group not served":    {404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{},"code":404}`, ErrNotServed},
		"invalid":             {422, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","message":"bad usages","code":422}`, ErrRefused},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(tt.body, "{") {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(tt.code)
			fmt.Fprint(w, tt.body)
		}))
		c, err := NewClient(&rest.Config{Host: s.URL})
		must.OK(t, err)
		if _, err := c.Get(t.Context(), "a"); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
		s.Close()
	}
}

func TestErrorsOfTheNetwork(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	for host, hint := range map[string]string{
		s.URL:    "certificate authority",
		down.URL: down.URL + " is up",
	} {
		c, err := NewClient(&rest.Config{Host: host})
		must.OK(t, err)
		var e *apierror.Error
		if _, err := c.Get(t.Context(), "a"); !errors.As(err, &e) || !errors.Is(err, apierror.ErrUnreachable) ||
			!strings.Contains(e.Hint(), hint) {
			t.Errorf("%s: %v, hint %q", host, err, e.Hint())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := NewClient(&rest.Config{Host: s.URL})
	must.OK(t, err)
	if _, err := c.Get(ctx, "a"); !errors.Is(err, context.Canceled) || errors.Is(err, apierror.ErrUnreachable) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := NewClient(&rest.Config{Host: "http://a b"}); err == nil {
		t.Error("a host with a space was accepted")
	}
}

// TestPatient: a client waits for one answer as long as it is told to, and says then that
// none came in time.
func TestPatient(t *testing.T) {
	f := newFake(t)
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(release) })
	c, err := NewClient(&rest.Config{Host: slow.URL})
	must.OK(t, err)
	if _, err := c.Patient(time.Millisecond).Get(t.Context(), "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if other := f.client(); other.Patient(time.Hour).patience != time.Hour || other.patience != callTimeout {
		t.Error("the client itself is another after it")
	}
}
