package request

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// TestRefuse: the risks that are named are those that approve the request.
func TestRefuse(t *testing.T) {
	var v View
	v.Refuse(RiskMismatch, []string{RiskRevoked}, "a", "b")
	v.Refuse(RiskRevoked, []string{RiskRevoked}, "c")
	v.Refuse(RiskRevoked, nil)
	if strings.Join(v.Refusals, "") != "ab" || strings.Join(v.Warnings, "") != "c" ||
		strings.Join(v.Risks, ",") != RiskMismatch {
		t.Errorf("%+v", v)
	}
	v.Refuse("", []string{""}, "d")
	v.Refuse(RiskRevoked, nil, "e")
	if strings.Join(v.Refusals, "") != "abde" || len(v.Risks) != 0 {
		t.Errorf("with one that cannot be accepted: %+v", v)
	}
}

// TestForecastRefusal: only what is certain to be refused stands in the way.
func TestForecastRefusal(t *testing.T) {
	points := []csr.Point{{ID: "a", Verdict: csr.Warn, Reason: "odd"},
		{ID: "b", Verdict: csr.Refuse, Reason: "never", Evidence: "the book"}}
	err := ForecastRefusal(points)
	if !errors.Is(err, ErrForecast) || !strings.Contains(err.Error(), "never (the book)") ||
		strings.Contains(err.Error(), "odd") {
		t.Errorf("got %v", err)
	}
	if err := ForecastRefusal(points[:1]); err != nil {
		t.Errorf("a warning stands in the way: %v", err)
	}
}

func TestRequesterKind(t *testing.T) {
	for who, want := range map[string]string{
		"jane": "", "system:bootstrap:abcdef": "bootstrap token abcdef", "system:serviceaccount:ns:bot": "service account ns:bot",
		"system:node:n1": "node n1", "system:anonymous": "nobody signed in",
	} {
		if got := requesterKind(who); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s is %q", who, got)
		}
	}
}

// TestAdmissionEndsTheMatter: what a revocation, or another policy, refuses is not sent to an admin who files it all
// the same. What takes a right is, but for a renewal, which takes the right itself.
func TestAdmissionEndsTheMatter(t *testing.T) {
	w := asked(t)
	client, err := cluster.Access{Env: w.Env}.Client(t.Context(), "")
	must.OK(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	pem, err := csr.NewRequest(key, csr.Subject{User: "jane"}, csr.RequestOptions{})
	must.OK(t, err)
	var admin *SendToAdmin
	w.Server.Fail(http.StatusForbidden, "create certificatesigningrequests")
	_, err = File(t.Context(), client, &enrolling.Request{Spec: csr.Spec{Name: "again", Request: pem}}, false)
	if !errors.Is(err, csr.ErrRefused) || errors.As(err, &admin) {
		t.Errorf("refused by a policy: %v", err)
	}
	w.Server.Before(nil)
	w.Server.Forbid("create certificatesigningrequests")
	_, err = File(t.Context(), client, &enrolling.Request{Spec: csr.Spec{Name: "again", Request: pem}}, false)
	if !errors.As(err, &admin) || !strings.Contains(admin.Text, "kubectl") {
		t.Errorf("a missing right: %v", err)
	}
	_, err = File(t.Context(), client, &enrolling.Request{Spec: csr.Spec{Name: "again", Request: pem}}, true)
	var lacks *csr.ForbiddenError
	if admin = nil; errors.As(err, &admin) || !errors.As(err, &lacks) || strings.Contains(lacks.Grant(), "certificate approve") {
		t.Errorf("a renewal without the right: %v", err)
	}
}
