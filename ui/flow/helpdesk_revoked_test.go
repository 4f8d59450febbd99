package flow

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
)

// TestRevoked: what the record of revocations has against a request.
func TestRevoked(t *testing.T) {
	const here, elsewhere = "https://10.0.0.1:6443", "https://10.9.9.9:6443"
	at := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	gone := deeds.Deed{Action: "revoke", Time: at, Server: here, User: "jane", Keys: []string{"lost"}, Certificates: []string{"c0ffee"}}
	approved := func(user, key, cert string) deeds.Deed {
		return deeds.Deed{Action: "approve", Server: here, User: user, Fingerprint: key, Certificate: cert}
	}
	made := func(user, id string) deeds.Deed {
		return deeds.Deed{Action: "ticket", Server: here, User: user, Ticket: id}
	}
	asks := func(user, requester, key string, change ...func(*RequestView)) RequestView {
		v := RequestView{User: user, Requester: requester, Fingerprint: key, Created: at.Add(time.Hour), Object: &certificatesv1.CertificateSigningRequest{}}
		for _, c := range change {
			c(&v)
		}
		return v
	}
	filedWith := func(hash string) func(*RequestView) {
		return func(v *RequestView) {
			v.Object.Spec.Extra = map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"X509SHA256=" + strings.ToUpper(hash)}}
		}
	}
	byTicket := func(id string, after time.Duration) func(*RequestView) {
		return func(v *RequestView) {
			v.Requester, v.RequesterGroups, v.Created = bootstraptoken.UserPrefix+id, []string{ticket.Group}, at.Add(after)
		}
	}
	for _, c := range []struct {
		name              string
		past              []deeds.Deed
		v                 RequestView
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
	var v RequestView
	v.refuse(RiskMismatch, []string{RiskRevoked}, "a", "b")
	v.refuse(RiskRevoked, []string{RiskRevoked}, "c")
	v.refuse(RiskRevoked, nil)
	if strings.Join(v.Refusals, "") != "ab" || strings.Join(v.Warnings, "") != "c" || strings.Join(v.Risks, ",") != RiskMismatch || strings.Join(v.accepted, ",") != RiskRevoked {
		t.Errorf("%+v", v)
	}
	v.refuse("", []string{""}, "d")
	v.refuse(RiskRevoked, nil, "e")
	if strings.Join(v.Refusals, "") != "abde" || len(v.Risks) != 0 {
		t.Errorf("with one that cannot be accepted: %+v", v)
	}
}

// TestHugeDeed: what others wrote does not keep the record from being read.
func TestHugeDeed(t *testing.T) {
	e, _ := testEnv(t)
	if err := deeds.NewLog(&e.Env).Add(t.Context(), deeds.Deed{Action: "revoke", User: "jane", Note: strings.Repeat("\x1b[31mé", 100<<10)}); err != nil {
		t.Fatal(err)
	}
	if err := deeds.NewLog(&e.Env).Add(t.Context(), deeds.Deed{Action: "revoke", User: strings.Repeat("x", deeds.MaxDeed)}); err == nil {
		t.Error("a line was written that cannot be read")
	}
	if past, err := deeds.NewLog(&e.Env).All(); err != nil || len(past) != 1 {
		t.Errorf("%d, %v", len(past), err)
	}
}

// TestRevokeEndedTicket: a ticket that somebody else has ended is no failure; one
// that may not be ended is.
func TestRevokeEndedTicket(t *testing.T) {
	e, _ := testEnv(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, reason := http.StatusNotFound, "NotFound"
		if strings.HasSuffix(r.URL.Path, "bootstrap-token-ghijkl") {
			code, reason = http.StatusForbidden, "Forbidden"
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","code":` + strconv.Itoa(code) + `}`))
	}))
	defer server.Close()
	pointAt(t, e, server)
	r := Revocation{User: "jane", Tickets: []string{"abcdef", "ghijkl"}}
	if err := NewRevocations(&e.Env).Revoke(t.Context(), "", &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Done) != 1 || !strings.Contains(r.Done[0], "abcdef") || len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "ghijkl") {
		t.Errorf("done %q, failed %q", r.Done, r.Failed)
	}
}
