package csr

import (
	"context"
	"errors"
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

func TestWaitSurvivesRestart(t *testing.T) {
	f, w := waitForA(t)
	f.stop()
	w.expect("connection lost", func(s Status) bool {
		return errors.Is(s.Lost, apierror.ErrUnreachable) &&
			s.State == Pending
	})
	f.start()
	w.expectState(Pending)
	f.stop()
	w.expect("connection lost", func(s Status) bool { return s.Lost != nil })
	f.update("a", approve)
	f.update("a", issue)
	f.start()
	w.expectState(Issued)
	w.endWell()
}

// A starting API server answers before its authorizer has read the roles.
func TestWaitSurvivesRefusalAfterRestart(t *testing.T) {
	f, w := waitForA(t)
	answers := []int{http.StatusForbidden, http.StatusUnauthorized, http.StatusNotFound, http.StatusServiceUnavailable}
	f.stop()
	f.mu.Lock()
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(answers) == 0 {
			return false
		}
		http.Error(w, "starting", answers[0])
		answers = answers[1:]
		return true
	}
	f.mu.Unlock()
	f.start()
	w.expect("connection lost", func(s Status) bool { return s.Lost != nil })
	w.expectState(Pending)
	f.update("a", approve)
	f.update("a", issue)
	w.endWell()
}

func TestWaitRefused(t *testing.T) {
	f := newFake(t)
	ref := RefOf(f.put(pending("a")))
	f.denied = []string{"get " + resource}
	var forbidden *ForbiddenError
	if err := startWait(t, t.Context(), f, ref, quick()).end(); !errors.As(err, &forbidden) || forbidden.User != "jane" {
		t.Fatalf("at once: %v", err)
	}
	f.denied = nil
	cfg := quick()
	cfg.grace = 0
	w := startWait(t, t.Context(), f, ref, cfg)
	w.expectState(Pending)
	f.mu.Lock()
	f.denied = []string{"get " + resource}
	f.mu.Unlock()
	if err := w.end(); !errors.As(err, &forbidden) {
		t.Fatalf("later: %v", err)
	}
}

func TestWaitUnauthorized(t *testing.T) {
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		f.fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "", "Unauthorized")
		return true
	}
	if err := startWait(t, t.Context(), f, Ref{Name: "a"}, quick()).end(); !errors.Is(err, apierror.ErrUnauthorized) {
		t.Fatal(err)
	}
}

// Who waits needs no right but to read the one request: join lines are in many hands.
func TestWaitReadsByName(t *testing.T) {
	f := newFake(t)
	f.denied = []string{"watch " + resource, "list " + resource}
	ref := RefOf(f.put(pending("a")))
	w := startWait(t, t.Context(), f, ref, quick())
	w.expectState(Pending)
	f.update("a", approve)
	w.expectState(Approved)
	f.update("a", issue)
	w.endWell()
}

func TestWaitNotesStallOnce(t *testing.T) {
	f := newFake(t)
	ref := RefOf(f.put(pending("a")))
	f.update("a", approve)
	cfg := quick()
	cfg.stall = time.Millisecond
	w := startWait(t, t.Context(), f, ref, cfg)
	w.expectState(Approved)
	w.expect("a note", func(s Status) bool { return s.State == Approved && strings.Contains(s.Note, ClientSigner) })
	f.update("a", issue)
	w.expectState(Issued)
	if err := w.end(); err != nil || w.last.Note != "" {
		t.Fatalf("%v, note %q", err, w.last.Note)
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	f := newFake(t)
	ref := RefOf(f.put(pending("a")))
	ctx, cancel := context.WithCancel(t.Context())
	w := startWait(t, ctx, f, ref, quick())
	w.expectState(Pending)
	cancel()
	if err := w.end(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "which is pending") {
		t.Fatalf("connected: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	f.stop()
	w = startWait(t, ctx, f, ref, quick())
	w.expect("connection lost", func(s Status) bool { return s.Lost != nil && s.Object == nil })
	cancel()
	if err := w.end(); !errors.Is(err, context.Canceled) || !errors.Is(err, apierror.ErrUnreachable) {
		t.Fatalf("unreachable: %v", err)
	}
}

// A handshake that fails will fail again, and each one may cost a touch.
func TestWaitEndsOnFailedHandshake(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	c, err := NewClient(&rest.Config{Host: s.URL})
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.Wait(ctx, Ref{Name: "a"}, nil); !errors.Is(err, apierror.ErrUnreachable) || ctx.Err() != nil {
		t.Fatalf("got %v", err)
	}
}
