package request

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// TestRevoked: what the record of revocations has against a request.
func TestRevoked(t *testing.T) {
	const here, elsewhere = "https://10.0.0.1:6443", "https://10.9.9.9:6443"
	at := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	gone := deeds.Deed{Action: "revoke", Time: at, Server: here, User: "jane", Keys: []string{"lost"},
		Certificates: []string{"c0ffee"}}
	back := deeds.Deed{Action: "lift", Server: here, User: "jane", Keys: []string{"lost"}, Certificates: []string{"c0ffee"}}
	approved := func(user, key, cert string) deeds.Deed {
		return deeds.Deed{Action: "approve", Server: here, User: user, Fingerprint: key, Certificate: cert}
	}
	made := func(user, id string) deeds.Deed {
		return deeds.Deed{Action: "ticket", Server: here, User: user, Ticket: id}
	}
	asks := func(user, requester, key string, change ...func(*View)) View {
		v := View{User: user, Requester: requester, Fingerprint: key, Created: at.Add(time.Hour),
			Object: &certificatesv1.CertificateSigningRequest{}}
		for _, c := range change {
			c(&v)
		}
		return v
	}
	filedWith := func(hash string) func(*View) {
		return func(v *View) {
			v.Object.Spec.Extra = map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"X509SHA256=" + strings.ToUpper(hash)}}
		}
	}
	byTicket := func(id string, after time.Duration) func(*View) {
		return func(v *View) {
			v.Requester, v.RequesterGroups, v.Created = bootstraptoken.UserPrefix+id, []string{ticket.Group}, at.Add(after)
		}
	}
	for _, c := range []struct {
		name              string
		past              []deeds.Deed
		v                 View
		refusals, warning string
	}{
		{"somebody else", []deeds.Deed{gone}, asks("joe", "joe", "new"), "", ""},
		{"the user", []deeds.Deed{gone}, asks("jane", "jane", "new"), `access for "jane" was revoked`, ""},
		{"the user asks for another", []deeds.Deed{gone}, asks("joe", "jane", "new"), `access for "jane" was revoked`, ""},
		{"the key, for another user, by another", []deeds.Deed{gone}, asks("joe", "joe", "lost"), "its key belonged to", ""},
		{"the key in another cluster", []deeds.Deed{{Action: "revoke", Time: at, Server: elsewhere, User: "jane", Keys: []string{"lost"}}}, asks("joe", "joe", "lost"), "its key belonged to", ""},
		{"the user in another cluster", []deeds.Deed{{Action: "revoke", Time: at, Server: elsewhere, User: "jane"}}, asks("jane", "jane", "new"), "", elsewhere},
		{"the certificate", []deeds.Deed{gone}, asks("joe", "joe", "new", filedWith("c0ffee")), "filed with a certificate", ""},
		{"another certificate", []deeds.Deed{gone}, asks("joe", "joe", "new", filedWith("beef")), "", ""},
		{"a key that was approved before", []deeds.Deed{approved("jane", "old", "feed"), gone}, asks("joe", "joe", "old"), "its key belonged to", ""},
		{"a certificate that was approved before", []deeds.Deed{approved("jane", "old", "feed"), gone}, asks("joe", "joe", "new", filedWith("feed")), "filed with a certificate", ""},
		{"a key that was approved since", []deeds.Deed{gone, approved("jane", "spare", "")}, asks("jane", "jane", "spare"), "", ""},
		{"a new key, by a certificate that was approved since", []deeds.Deed{gone, approved("jane", "spare", "feed")}, asks("jane", "jane", "newer", filedWith("feed")), "", ""},
		{"a new key, by who knows what", []deeds.Deed{gone, approved("jane", "spare", "feed")}, asks("jane", "jane", "newer"), `access for "jane" was revoked`, ""},
		{"the lifted key", []deeds.Deed{gone, back}, asks("jane", "jane", "lost"), "", ""},
		{"with the lifted certificate", []deeds.Deed{gone, back}, asks("joe", "joe", "new", filedWith("c0ffee")), "", ""},
		{"revoked again after it was lifted", []deeds.Deed{gone, back, gone}, asks("jane", "jane", "lost"), "its key belonged to", ""},
		{"another certificate was lifted", []deeds.Deed{gone, {Action: "lift", Server: here, User: "jane", Certificates: []string{"feed"}}},
			asks("jane", "jane", "new"), `access for "jane" was revoked`, ""},
		{"the lost key, after the spare was approved", []deeds.Deed{gone, approved("jane", "spare", "")}, asks("jane", "jane", "lost"), "its key belonged to", ""},
		{"the lost key, which was approved all the same", []deeds.Deed{gone, approved("jane", "lost", "")}, asks("jane", "jane", "lost"), "", ""},
		{"revoked once more", []deeds.Deed{gone, approved("jane", "spare", ""), gone}, asks("jane", "jane", "spare"), "its key belonged to", ""},
		{"a ticket from before", []deeds.Deed{made("jane", "abcdef"), gone}, asks("jane", "", "new", byTicket("abcdef", time.Hour)), `access for "jane" was revoked`, ""},
		{"a ticket that was made since", []deeds.Deed{gone, made("jane", "abcdef")}, asks("jane", "", "new", byTicket("abcdef", time.Hour)), "", ""},
		{"the lost key with a ticket that was made since", []deeds.Deed{gone, made("jane", "abcdef")}, asks("jane", "", "lost", byTicket("abcdef", time.Hour)), "its key belonged to", ""},
		{"a ticket of somebody else", []deeds.Deed{gone, made("joe", "abcdef")}, asks("jane", "", "new", byTicket("abcdef", time.Hour)), `access for "jane" was revoked`, ""},
		{"another desk's ticket, on the day", []deeds.Deed{gone}, asks("jane", "", "new", byTicket("abcdef", 20*time.Hour)), `access for "jane" was revoked`, ""},
		{"another desk's ticket, later", []deeds.Deed{gone}, asks("jane", "", "new", byTicket("abcdef", 25*time.Hour)), "", "made later"},
		{"a request that cannot be read", []deeds.Deed{approved("jane", "", ""), gone}, asks("", "joe", ""), "", ""},
	} {
		refusals, warnings := revoked(c.past, here, &c.v)
		for _, x := range []struct {
			what, want string
			got        []string
		}{{"refused", c.refusals, refusals}, {"warned", c.warning, warnings}} {
			if got := strings.Join(x.got, "; "); (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
				t.Errorf("%s: %s: %q, want %q", c.name, x.what, got, x.want)
			}
		}
	}
}

// TestRefuse: the risks that are named are those that approve the request.
func TestRefuse(t *testing.T) {
	var v View
	v.Refuse(RiskMismatch, []string{RiskRevoked}, "a", "b")
	v.Refuse(RiskRevoked, []string{RiskRevoked}, "c")
	v.Refuse(RiskRevoked, nil)
	if strings.Join(v.Refusals, "") != "ab" || strings.Join(v.Warnings, "") != "c" ||
		strings.Join(v.Risks, ",") != RiskMismatch || strings.Join(v.accepted, ",") != RiskRevoked {
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
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := csr.NewRequest(key, csr.Subject{User: "jane"}, csr.RequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
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
