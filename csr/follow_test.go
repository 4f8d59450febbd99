package csr

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestFollow: pages, changes, a broken watch, an API server that restarts, and
// one that has forgotten; nothing is told twice.
func TestFollow(t *testing.T) {
	f := newFake(t)
	for i := range 5 {
		f.put(pending(fmt.Sprint("r", i)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	next, stop := iter.Pull2(f.client().Follow(ctx, ListOptions{PageSize: 2}))
	defer stop()
	want := func(kind watch.EventType, name string) {
		t.Helper()
		e, err, ok := next()
		if !ok || err != nil || e.Type != kind || e.Object.Name != name {
			t.Fatalf("%v %+v, %v; want %s %s", ok, e, err, kind, name)
		}
	}
	for i := range 5 {
		want(watch.Added, fmt.Sprint("r", i))
	}
	note := func(o *certificatesv1.CertificateSigningRequest) {
		o.Annotations = map[string]string{"n": o.ResourceVersion}
	}
	f.update("r1", note)
	want(watch.Modified, "r1")
	f.remove("r2")
	want(watch.Deleted, "r2")
	f.dropWatches()
	f.put(pending("late"))
	want(watch.Added, "late")
	f.stop()
	f.start()
	f.update("r3", note)
	want(watch.Modified, "r3")
	f.dropWatches()
	f.update("r4", note)
	f.remove("r0")
	f.compact()
	f.dropWatches()
	want(watch.Modified, "r4")
	f.put(pending("last"))
	want(watch.Added, "last")
}

func TestFollowEnds(t *testing.T) {
	f := newFake(t)
	f.denied = []string{"watch " + resource}
	for _, err := range f.client().Follow(t.Context(), ListOptions{}) {
		var e *ForbiddenError
		if !errors.As(err, &e) {
			t.Errorf("got %v", err)
		}
	}
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		f.fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "", "who?")
		return true
	}
	for _, err := range f.client().Follow(t.Context(), ListOptions{}) {
		if !errors.Is(err, apierror.ErrUnauthorized) {
			t.Errorf("got %v", err)
		}
	}
	f.answer = nil
	ctx, cancel := context.WithCancel(t.Context())
	f.denied = nil
	f.put(pending("a"))
	for e, err := range f.client().Follow(ctx, ListOptions{}) {
		if err == nil && e.Object.Name == "a" {
			cancel()
			continue
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	cancel()
}
