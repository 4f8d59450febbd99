package tui

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

func (f *fakeBackend) BootstrapTokens(context.Context, string, bool) ([]desk.BootstrapToken, []string, error) {
	if f.deskErr != nil {
		return nil, nil, f.deskErr
	}
	soon, later := fakeNow().Add(4*time.Minute), fakeNow().Add(20*time.Hour)
	return []desk.BootstrapToken{
		{ID: "abcdef", Description: ticket.Terms{User: "jane", Groups: []string{"dev"}}.Description(), Expires: &soon, Usages: bootstraptoken.KnownUsages()},
		{ID: "xyz123", Description: "for the new rack", Expires: &later, Usages: bootstraptoken.KnownUsages()},
		{ID: "old000", Description: "nobody knows"},
	}, nil, nil
}

func (f *fakeBackend) CreateBootstrapToken(_ context.Context, _ string, r bootstraptoken.Record, _ bool) (desk.BootstrapToken, error) {
	return desk.BootstrapToken{Token: "aaaaaa.0123456789abcdef", Join: "kubehsm join 10.0.0.1:6443 --token aaaaaa.0123456789abcdef"}, f.did("token %q", r.Description)
}

func (f *fakeBackend) DeleteBootstrapToken(_ context.Context, _, id string) error {
	return f.did("delete token %s", id)
}

func (f *fakeBackend) MakeTicket(_ context.Context, _ string, o desk.TicketOptions) (desk.IssuedTicket, error) {
	f.mu.Lock()
	err := f.spareErr
	f.mu.Unlock()
	if err != nil && strings.HasSuffix(o.Name, "spare") {
		return desk.IssuedTicket{}, err
	}
	return desk.IssuedTicket{Text: "KHSM1-ABCDE-FGHIJ-KLMNO-PQRST", Expires: fakeNow().Add(o.TTL)}, f.did("ticket for %s in %v, %s, serial %q, as %s", o.User, o.Groups, o.Policy, o.Serial, o.Name)
}

func (f *fakeBackend) BreakGlassList() ([]desk.BreakGlassView, error) {
	return []desk.BreakGlassView{{Name: "safe", Sealed: true, User: "break-glass", State: "due", NotAfter: fakeNow().Add(20 * 24 * time.Hour)}}, nil
}

func (f *fakeBackend) BreakGlass(_ context.Context, o desk.BreakGlassOptions) (enrolling.Options, error) {
	return enrolling.Options{Name: "prod-break-glass", Context: "prod", User: "jane", Reason: o.Reason}, nil
}

func (f *fakeBackend) RecordBreakGlass(_ context.Context, r enrolling.Result, reason string) error {
	return f.did("broke the glass as %s: %s", r.Name, reason)
}

func (f *fakeBackend) Sealed(_ context.Context, _, _ string, o enrolling.Options) (enrolling.Options, error) {
	o.Name, o.Groups = o.User+"-sealed", []string{request.SealedGroup}
	return o, f.did("seal %s: %s", o.User, o.Reason)
}

func (f *fakeBackend) LookUpRevocation(_ context.Context, _, user string, groups []string) (desk.Revocation, error) {
	return desk.Revocation{User: user, Bindings: []desk.BindingView{{Kind: "RoleBinding", Name: user + "-edit", Namespace: "dev", Role: "edit", Subject: user}},
		GroupBindings: []desk.BindingView{{Kind: "ClusterRoleBinding", Name: "devs", Role: "view", Subject: "dev"}}, Tickets: []string{"abcdef"},
		Certificates: []desk.CertificateView{{Request: "kubehsm-" + user, Groups: groups, NotAfter: fakeNow().Add(30 * 24 * time.Hour)}}}, nil
}

func (f *fakeBackend) Revoke(_ context.Context, _ string, r *desk.Revocation) error {
	r.Done, r.Failed = []string{"rolebinding " + r.User + "-edit in dev"}, []string{"ticket abcdef: forbidden"}
	return f.did("revoke %s", r.User)
}

func (f *fakeBackend) Deeds() ([]deeds.Deed, error) {
	if f.tickets != nil {
		return f.tickets, nil
	}
	return []deeds.Deed{{Time: fakeNow().Add(-time.Hour), Action: "ticket", Ticket: "abcdef", User: "jane"}, {Time: fakeNow(), Action: "approve", Request: "kubehsm-jane", User: "jane"}}, nil
}

func (f *fakeBackend) OpenSealed(id, serial string, sealed []byte) (*hsm.Secret, error) {
	return hsm.NewSecret([]byte("73519264")), f.did("open %s %s %s", id, serial, sealed)
}

func (f *fakeBackend) ForgetSealKey(id string) error { return f.did("forget %s", id) }

func (f *fakeBackend) CheckRBAC(context.Context, string, []string) ([]desk.RBACObject, error) {
	return []desk.RBACObject{{Set: "ticket", Kind: "ClusterRole", Name: "kubehsm:ticket", State: desk.RBACSame}, {Set: "helpdesk", Kind: "ClusterRole", Name: "kubehsm:helpdesk", State: desk.RBACMissing}}, nil
}

func (f *fakeBackend) ApplyRBAC(context.Context, string, []string, bool, bool) ([]desk.RBACObject, error) {
	return []desk.RBACObject{{Set: "helpdesk", Kind: "ClusterRole", Name: "kubehsm:helpdesk", State: desk.RBACApplied}}, f.did("apply the roles")
}

func (f *fakeBackend) Rights(context.Context, string) ([]desk.RBACRight, error) {
	return []desk.RBACRight{{Duty: "make tickets", Allowed: true, Needs: "create secrets in kube-system"}, {Duty: "approve requests", Needs: "approve signers"}}, nil
}

// fakePins are the pins of an authority of the test's own.
func fakePins(t *testing.T) []discovery.Pin {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pins, err := discovery.PinsOf(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return pins
}
