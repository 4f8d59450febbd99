package csr

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/test/must"
)

// patience is how long a test waits for what must happen; it never passes
// unless something is broken.
const patience = 60 * time.Second

func quick() waitConfig {
	c := defaultWait()
	c.retryMin, c.retryMax, c.poll = time.Millisecond, 20*time.Millisecond, time.Millisecond
	c.stall = 0
	return c
}

// waiting is a Wait that runs beside the test.
type waiting struct {
	t       *testing.T
	f       *fakeAPI
	changes chan Status
	done    chan struct{}
	last    Status
	err     error
}

func startWait(t *testing.T, ctx context.Context, f *fakeAPI, ref Ref, cfg waitConfig) *waiting {
	w := &waiting{t: t, f: f, changes: make(chan Status, 1000), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	c := f.client()
	var wg sync.WaitGroup
	wg.Go(func() {
		w.last, w.err = c.wait(ctx, ref, func(s Status) { w.changes <- s }, cfg)
		close(w.done)
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return w
}

// waitForA has a cluster with the pending request a, which is waited for.
func waitForA(t *testing.T) (*fakeAPI, *waiting) {
	f := newFake(t)
	ref := RefOf(f.put(pending("a")))
	w := startWait(t, t.Context(), f, ref, quick())
	w.expectState(Pending)
	return f, w
}

func (w *waiting) expect(what string, ok func(Status) bool) Status {
	w.t.Helper()
	select {
	case s := <-w.changes:
		if !ok(s) {
			w.t.Fatalf("reported %+v, want %s", s, what)
		}
		return s
	case <-time.After(patience):
		w.t.Fatalf("nothing reported, want %s", what)
	}
	return Status{}
}

func (w *waiting) expectState(want State) {
	w.t.Helper()
	w.expect(want.String(), func(s Status) bool { return s.State == want && s.Lost == nil && s.Note == "" })
}

func (w *waiting) end() error {
	w.t.Helper()
	select {
	case <-w.done:
		return w.err
	case <-time.After(patience):
		w.t.Fatal("the wait did not end")
		return nil
	}
}

func (w *waiting) endWell() {
	w.t.Helper()
	must.OK(w.t, w.end())
}

func pending(name string) *certificatesv1.CertificateSigningRequest {
	obj := &certificatesv1.CertificateSigningRequest{}
	obj.Name = name
	obj.Spec.SignerName = ClientSigner
	return obj
}

func set(kind certificatesv1.RequestConditionType,
	reason, message string) func(*certificatesv1.CertificateSigningRequest) {
	return func(o *certificatesv1.CertificateSigningRequest) {
		o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now(),
		})
	}
}

func issue(o *certificatesv1.CertificateSigningRequest) { o.Status.Certificate = []byte("PEM") }

func approve(o *certificatesv1.CertificateSigningRequest) {
	set(certificatesv1.CertificateApproved, "Ok", "fine")(o)
}

func TestWaitIssued(t *testing.T) {
	f := newFake(t)
	ref := RefOf(f.put(pending("a")))
	f.put(pending("other"))
	w := startWait(t, t.Context(), f, ref, quick())
	w.expectState(Pending)
	f.update("other", set(certificatesv1.CertificateDenied, "No", ""))
	f.update("a", approve)
	w.expectState(Approved)
	f.update("a", issue)
	w.expectState(Issued)
	w.endWell()
	if w.last.State != Issued || w.last.Reason != "Ok" || string(w.last.Object.Status.Certificate) != "PEM" {
		t.Fatalf("last %+v", w.last)
	}
}

func TestWaitAlreadyFinal(t *testing.T) {
	f := newFake(t)
	f.put(pending("a"))
	f.update("a", approve)
	f.update("a", issue)
	w := startWait(t, t.Context(), f, Ref{Name: "a"}, quick())
	w.endWell()
}

func TestWaitDenied(t *testing.T) {
	f, w := waitForA(t)
	f.update("a", set(certificatesv1.CertificateDenied, "Unknown", "who are you"))
	var denied *DeniedError
	if err := w.end(); !errors.As(err, &denied) || denied.Hint() == "" ||
		err.Error() != "request a was denied: Unknown: who are you" {
		t.Fatalf("got %v", err)
	}
}

func TestWaitFailed(t *testing.T) {
	f, w := waitForA(t)
	f.update("a", approve)
	f.update("a", set(certificatesv1.CertificateFailed, "SignerValidationFailure", "usages did not match"))
	var failed *FailedError
	if err := w.end(); !errors.As(err, &failed) || !strings.Contains(failed.Hint(), "client auth") {
		t.Fatalf("got %v", err)
	}
}

func TestWaitDeleted(t *testing.T) {
	for _, tt := range []struct {
		name      string
		act       func(f *fakeAPI)
		recreated bool
	}{
		{"while waited for", func(f *fakeAPI) { f.remove("a") }, false},
		{"while down", func(f *fakeAPI) { f.stop(); f.remove("a"); f.start() }, false},
		{"and recreated while down", func(f *fakeAPI) { f.stop(); f.remove("a"); f.put(pending("a")); f.start() }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			ref := RefOf(f.put(pending("a")))
			w := startWait(t, t.Context(), f, ref, quick())
			w.expectState(Pending)
			tt.act(f)
			var deleted *DeletedError
			if err := w.end(); !errors.As(err, &deleted) || deleted.Recreated != tt.recreated ||
				deleted.Status.State != Pending {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestWaitUnknown(t *testing.T) {
	f := newFake(t)
	if err := startWait(t, t.Context(), f, Ref{Name: "a"}, quick()).end(); !errors.Is(err, ErrNotFound) {
		t.Fatalf("by name: %v", err)
	}
	var deleted *DeletedError
	if err := startWait(t, t.Context(), f, Ref{Name: "a", UID: "gone"}, quick()).end(); !errors.As(err, &deleted) {
		t.Fatalf("by UID: %v", err)
	}
}
