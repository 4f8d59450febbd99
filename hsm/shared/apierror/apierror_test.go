package apierror_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

func TestOf(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err        error
		kind       error
		text, hint string
	}{
		"nothing":        {},
		"cancelled":      {err: &url.Error{Op: "Get", URL: "https://x", Err: context.Canceled}, kind: context.Canceled, text: `read: Get "https://x": context canceled`},
		"the credential": {err: apierrors.NewUnauthorized("no"), kind: apierror.ErrUnauthorized, text: "read: credential not accepted: no", hint: "the certificate or token used for host is unknown to it or has expired: get a new one, or use another context"},
		"the exec plugin": {err: errors.New("getting credentials: exec: exit 1"), kind: apierror.ErrUnauthorized,
			text: "read: credential not accepted: getting credentials: exec: exit 1",
			hint: "the kubeconfig's exec plugin failed; run its command by hand"},
		"missing rights": {err: apierrors.NewForbidden(secrets, "", nil), text: `read: secrets is forbidden: <nil>`},
		"withheld": {err: apierror.Said([]byte(`{"kind":"Status","message":"kubehsm: no consent","reason":"Forbidden","code":403}`), apierrors.NewForbidden(secrets, "", nil)),
			kind: apierror.ErrWithheld, text: "read: not sent to the cluster: no consent"},
		"the network": {err: &url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")}, kind: apierror.ErrUnreachable,
			text: "read: cannot reach the API server: connection refused", hint: "check that host is up and reachable from here"},
		"broken off": {err: io.ErrUnexpectedEOF, kind: apierror.ErrUnreachable,
			text: "read: cannot reach the API server: it ended in the middle of its answer",
			hint: "check that host is up and reachable from here"},
		"anything else": {err: errors.New("odd"), text: "read: odd"},
	} {
		err := apierror.Of("read", "host", tc.err)
		if err == nil && tc.err == nil {
			continue
		}
		if err == nil || err.Error() != tc.text || hint.Of(err) != tc.hint || !errors.Is(err, tc.err) || tc.kind != nil &&
			!errors.Is(err, tc.kind) {
			t.Errorf("%s: %v (hint: %s)", name, err, hint.Of(err))
		}
	}
}

// A hint that a driver gave survives the way through HTTP.
func TestErrorKeepsInnerHint(t *testing.T) {
	e := &apierror.Error{Op: "x", Kind: apierror.ErrUnreachable,
		Err: fmt.Errorf("dial: %w", hint.With(errors.New("f"), "plug it in")), Advice: "outer"}
	if e.Hint() != "plug it in" {
		t.Errorf("got %q", e.Hint())
	}
}

// TestSaid: an answer that is a Status becomes an error in its words; for any other answer
// the client's error stays.
func TestSaid(t *testing.T) {
	status := []byte(`{"kind":"Status","message":"it is not there","reason":"NotFound","code":404}`)
	plain := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "",
		"404 page not found", 0, true)
	if err := apierror.Said(status, plain); err.Error() != "it is not there" || !apierrors.IsNotFound(err) ||
		apierror.NotServed(err) {
		t.Errorf("%v, not served: %v", err, apierror.NotServed(err))
	}
	for _, raw := range []string{"", "404 page not found", `{"kind":"Status"}`, `{"kind":"Secret","message":"x"}`} {
		if err := apierror.Said([]byte(raw), plain); !errors.Is(err, plain) || !apierror.NotServed(err) {
			t.Errorf("%q: %v", raw, err)
		}
	}
	if err := apierror.Said(status, nil); err != nil {
		t.Errorf("no error: %v", err)
	}
	if apierror.NotServed(&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound}}) {
		t.Error("a 404 without details")
	}
}
