package csr

import (
	"errors"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/test/must"
)

func TestApproveAndDeny(t *testing.T) {
	f := newFake(t)
	c := f.client()
	seen := f.put(pending("a"))
	got, err := c.Approve(t.Context(), seen, Decision{Message: "known"})
	must.OK(t, err)
	s := StateOf(got)
	if s.State != Approved || s.Reason != "KubehsmApproved" || s.Message != "known" {
		t.Errorf("got %+v", s)
	}
	if again, err := c.Approve(t.Context(), got, Decision{}); err != nil || again.ResourceVersion != got.ResourceVersion {
		t.Errorf("approving twice: %v", err)
	}
	var conflict *ConflictError
	if _, err := c.Deny(t.Context(), got, Decision{}); !errors.As(err, &conflict) || conflict.Change != Decided {
		t.Errorf("deny after approve: %v", err)
	}
	b := f.put(pending("b"))
	got, err = c.Deny(t.Context(), b, Decision{Reason: "Stranger"})
	if s := StateOf(got); err != nil || s.State != Denied || s.Reason != "Stranger" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.Approve(t.Context(), got, Decision{}); !errors.As(err, &conflict) ||
		!strings.Contains(err.Error(), "already denied") {
		t.Errorf("approve after deny: %v", err)
	}
	if _, err := c.Approve(t.Context(), pending("a"), Decision{}); err == nil {
		t.Error("approved what was never read")
	}
}

func TestDecisionIsBoundToWhatWasShown(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(f *fakeAPI)
		want Change
	}{
		{"changed", func(f *fakeAPI) {
			f.update("a", func(o *certificatesv1.CertificateSigningRequest) { o.Annotations = map[string]string{"x": "y"} })
		}, Changed},
		{"decided", func(f *fakeAPI) { f.update("a", approve) }, Decided},
		{"gone", func(f *fakeAPI) { f.remove("a") }, Gone},
		{"recreated", func(f *fakeAPI) { f.remove("a"); f.put(pending("a")) }, Recreated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			seen := f.put(pending("a"))
			tt.act(f)
			_, err := f.client().Deny(t.Context(), seen, Decision{})
			var conflict *ConflictError
			if !errors.As(err, &conflict) || conflict.Change != tt.want || conflict.Hint() == "" {
				t.Fatalf("got %v", err)
			}
			if now := f.objects["a"]; now != nil && StateOf(now).State == Denied {
				t.Error("it was denied all the same")
			}
		})
	}
}

func TestApproveForbidden(t *testing.T) {
	f := newFake(t)
	f.denied = []string{"update " + resource + "/approval"}
	seen := f.put(pending("a"))
	_, err := f.client().Approve(t.Context(), seen, Decision{})
	var e *ForbiddenError
	if !errors.As(err, &e) || len(e.Missing) != 1 || e.Missing[0].Resource != resource+"/approval" {
		t.Fatalf("got %v", err)
	}
	f.denied = append(f.denied, "approve signers "+ClientSigner, "approve signers kubernetes.io/*")
	if _, err = f.client().Approve(t.Context(), seen, Decision{}); !errors.As(err, &e) || len(e.Missing) != 2 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"kind: ClusterRole\n", "kind: ClusterRoleBinding\n", "- approve\n",
		"- " + ClientSigner + "\n", "name: jane\n", "- get\n  - list\n  - watch\n"} {
		if !strings.Contains(e.Grant(), want) {
			t.Errorf("grant lacks %q:\n%s", want, e.Grant())
		}
	}
}
