package desk

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// filing is a request for an attested key, of the device with that serial number; 0 attests nothing.
type filing struct {
	requester string
	groups    []string // the requester's
	asks      []string // groups too
	serial    byte
	names     []string // alternative ones
	// present adds the certificate that it is filed with: "same" is for its key, "other" for another.
	present string
}

func file(t *testing.T, m *flowtest.Maker, s *flowtest.Server, name string, f filing) {
	t.Helper()
	key := m.NewKey()
	o := csr.RequestOptions{DNSNames: f.names}
	if f.serial != 0 {
		o.ExtraExtensions = attest.Extensions(m.Attest(key, f.serial))
	}
	user := f.requester
	if strings.HasPrefix(user, bootstraptoken.UserPrefix) {
		user = "amy"
	}
	pkcs10, err := csr.NewRequest(key, csr.Subject{User: user, Groups: f.asks}, o)
	must.OK(t, err)
	s.File(name, f.requester, user, nil, func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Request, r.Spec.Groups, r.Spec.Usages = pkcs10, f.groups, csr.ClientUsages(key.Public())
		if f.present == "" {
			return
		}
		if f.present == "other" {
			key = m.NewKey()
		}
		c := &x509.Certificate{Subject: pkix.Name{CommonName: user}}
		c = m.Sign(c, c, key, key)
		r.Annotations = clusterapi.Present(c)
		r.Spec.Extra = map[string]certificatesv1.ExtraValue{
			revocation.CredentialID: {fmt.Sprintf("%s%x", revocation.CertificatePrefix, sha256.Sum256(c.Raw))}}
	})
}

// onRoster puts a token there, whose owner is in the group dev.
func onRoster(s *flowtest.Server, serial, owner string, state clusterapi.TokenState) {
	putToken(s, serial, flowtest.Object{"state": string(state), "owner": owner, "groups": []string{"dev"}}, nil)
}

func putToken(s *flowtest.Server, serial string, spec, status flowtest.Object) {
	s.Put(rosterPath, flowtest.Object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
		"metadata": flowtest.Object{"name": serial, "namespace": clusterapi.Namespace}, "spec": spec, "status": status})
}

// filed is a world where requests of all kinds wait.
func filed(t *testing.T) (*flowtest.World, []*x509.Certificate) {
	w := desk(t)
	for _, name := range w.Server.Names(flowtest.Requests) {
		w.Server.Delete(flowtest.Requests, name)
	}
	onRoster(w.Server, "1", "jane", clusterapi.Active)
	onRoster(w.Server, "2", "joe", clusterapi.Active)
	onRoster(w.Server, "3", "jane", clusterapi.Lost)
	onRoster(w.Server, "4", "admin", clusterapi.Active)
	m := flowtest.NewMaker(t)
	dev, asks := []string{"dev", "ops", "kubehsm:break-glass"}, []string{"dev"}
	terms := func(serial string, groups ...string) []string {
		return ticket.Terms{User: "amy", Groups: groups, Lifetime: time.Hour, Serial: serial}.TokenGroups()
	}
	for name, f := range map[string]filing{
		"renews":        {requester: "jane", groups: dev, asks: asks, serial: 1},
		"same-key":      {requester: "jane", groups: dev, asks: asks, serial: 9, present: "same"},
		"own":           {requester: "admin", groups: dev, asks: asks, serial: 4}, // the approver's own request
		"unproven":      {requester: "jane", groups: dev, asks: asks, present: "same"},
		"more":          {requester: "jane", groups: asks, asks: []string{"dev", "qa"}, serial: 9, present: "same"},
		"not-given":     {requester: "jane", groups: dev, asks: []string{"ops"}, serial: 1},
		"another-token": {requester: "jane", groups: dev, asks: asks, serial: 9},
		"another-key":   {requester: "jane", groups: dev, asks: asks, serial: 9, present: "other"},
		"joes-token":    {requester: "jane", groups: dev, asks: asks, serial: 2, present: "same"},
		"lost-token":    {requester: "jane", groups: dev, asks: asks, serial: 3, present: "same"},
		"names":         {requester: "jane", groups: dev, asks: asks, serial: 1, names: []string{"a.example"}},
		"glass":         {requester: "jane", groups: dev, asks: dev[2:], serial: 9, present: "same"},
		"ticket":        {requester: bootstraptoken.UserPrefix + "aaaaaa", groups: terms("7"), serial: 7},
		"other-token":   {requester: bootstraptoken.UserPrefix + "bbbbbb", groups: terms("8"), serial: 7},
		"no-token":      {requester: bootstraptoken.UserPrefix + "cccccc", groups: terms(""), serial: 7},
		"glass-ticket": {requester: bootstraptoken.UserPrefix + "dddddd", groups: terms("7", "kubehsm:break-glass"),
			asks: dev[2:], serial: 7},
	} {
		file(t, m, w.Server, name, f)
	}
	return w, []*x509.Certificate{m.Root}
}

func proven(t *testing.T, w *flowtest.World, roots []*x509.Certificate) (all []request.View, names string) {
	t.Helper()
	all, left, err := NewApprovals(w.Env).Proven(t.Context(), "", roots)
	must.OK(t, err)
	var list []string
	for _, v := range all {
		list = append(list, v.Name)
	}
	return all, fmt.Sprint(list, left)
}

// TestProven: together are approved renewals for keys that are their users', and what is filed with a
// ticket for the token that it names, and nothing that has a reason to look closer.
func TestProven(t *testing.T) {
	w, roots := filed(t)
	if _, got := proven(t, w, nil); got != "[] 16" {
		t.Errorf("with Yubico's roots proven and left: %s", got)
	}
	all, got := proven(t, w, roots)
	if got != "[own renews same-key ticket] 12" {
		t.Errorf("proven and left: %s", got)
	}
	done, err := NewApprovals(w.Env).ApproveProven(t.Context(), "", all, request.DecideOptions{}, time.Millisecond)
	if err == nil || !strings.HasPrefix(err.Error(), "1 of 4 requests") {
		t.Errorf("the error is %v", err)
	}
	for _, p := range done {
		var r certificatesv1.CertificateSigningRequest
		w.Server.Get(flowtest.Requests, p.Request, &r)
		pending := csr.StateOf(&r).State == csr.Pending
		if own := p.Request == "own"; own != (p.Problem != "") || own != pending {
			t.Errorf("%s: pending %t, %q", p.Request, pending, p.Problem)
		}
		if ticketed := p.Request == "ticket"; ticketed != (len(p.Notes) > 0) { // no controller signs here
			t.Errorf("%s: notes %q", p.Request, p.Notes)
		}
	}
}

// TestProvenUnknown: what the approver may not look up is not taken for good.
func TestProvenUnknown(t *testing.T) {
	for rights, want := range map[string]string{
		"list validatingadmissionpolicies,get validatingadmissionpolicies": "[] 16", // which keys are revoked
		"list clusterrolebindings": "[] 16", // rights that the certificate would give
		"get hardwaretokens":       "[ticket] 15",
	} {
		w, roots := filed(t)
		w.Server.Forbid(strings.Split(rights, ",")...)
		if _, got := proven(t, w, roots); got != want {
			t.Errorf("without %s proven and left: %s, want %s", rights, got, want)
		}
	}
}

// TestProvenInterrupted: who stops is told what was approved before.
func TestProvenInterrupted(t *testing.T) {
	w, roots := filed(t)
	onRoster(w.Server, "4", "jane", clusterapi.Active) // so that nothing of admin's own is among them
	all, _ := proven(t, w, roots)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	approvals := 0
	w.Server.Before(func(right string) flowtest.Fate {
		if right == "update certificatesigningrequests/approval" {
			if approvals++; approvals == 2 {
				stop()
				return flowtest.Held
			}
		}
		return 0
	})
	done, err := NewApprovals(w.Env).ApproveProven(ctx, "", all, request.DecideOptions{}, time.Millisecond)
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "1 of 3 requests were not touched") {
		t.Errorf("the error is %v", err)
	}
	if len(done) != 2 || done[0].Problem != "" || done[1].Problem == "" {
		t.Errorf("done is %+v", done)
	}
	// A wait that is interrupted comes after the approval.
	w, roots = filed(t)
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	all, _ = proven(t, w, roots)
	w.Server.Before(func(right string) flowtest.Fate {
		if right == "create events" {
			stop()
		}
		return 0
	})
	done, err = NewApprovals(w.Env).ApproveProven(ctx, "", all[len(all)-1:], request.DecideOptions{}, time.Hour)
	if err != nil || len(done) != 1 || done[0].Problem != "" || len(done[0].Notes) == 0 {
		t.Errorf("with a ticket done is %+v, %v", done, err)
	}
}
