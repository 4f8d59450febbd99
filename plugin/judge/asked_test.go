package judge

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
)

// Whatever a request asks for beyond its ticket is told.
func TestMismatches(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	terms := ticket.Terms{User: "jane", Groups: []string{"dev", "ops"}, Lifetime: time.Hour}
	for what, tc := range map[string]struct {
		change func(*csr.Subject, *csr.RequestOptions, *csr.Spec)
		says   string
	}{
		"as the ticket says":      {func(*csr.Subject, *csr.RequestOptions, *csr.Spec) {}, ""},
		"groups in another order": {func(s *csr.Subject, _ *csr.RequestOptions, _ *csr.Spec) { s.Groups = []string{"ops", "dev"} }, ""},
		"shorter":                 {func(_ *csr.Subject, _ *csr.RequestOptions, s *csr.Spec) { s.Expiration = 20 * time.Minute }, ""},
		"another user":            {func(s *csr.Subject, _ *csr.RequestOptions, _ *csr.Spec) { s.User = "eve" }, "the user"},
		"a group more":            {func(s *csr.Subject, _ *csr.RequestOptions, _ *csr.Spec) { s.Groups = []string{"dev", "ops", "x"} }, "the groups"},
		"a group less":            {func(s *csr.Subject, _ *csr.RequestOptions, _ *csr.Spec) { s.Groups = []string{"dev"} }, "the groups"},
		"longer":                  {func(_ *csr.Subject, _ *csr.RequestOptions, s *csr.Spec) { s.Expiration = 2 * time.Hour }, "the lifetime"},
		"as long as it gets":      {func(_ *csr.Subject, _ *csr.RequestOptions, s *csr.Spec) { s.Expiration = 0 }, "the lifetime"},
		"another signer": {func(_ *csr.Subject, o *csr.RequestOptions, s *csr.Spec) {
			o.SignerName, s.SignerName = "a.io/b", "a.io/b"
		}, "the signer"},
		"another usage": {func(_ *csr.Subject, o *csr.RequestOptions, s *csr.Spec) {
			o.SignerName, s.SignerName = "a.io/b", "a.io/b"
			s.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth}
		}, `the usage "server auth"`},
		"a name more": {func(_ *csr.Subject, o *csr.RequestOptions, _ *csr.Spec) { o.DNSNames = []string{"api.example"} }, "alternative names"},
	} {
		subject, with := csr.Subject{User: "jane", Groups: []string{"dev", "ops"}}, csr.RequestOptions{}
		spec := csr.Spec{Name: "a", Expiration: time.Hour}
		tc.change(&subject, &with, &spec)
		if spec.Request, err = csr.NewRequest(key, subject, with); err != nil {
			t.Fatal(err)
		}
		obj, err := spec.Object()
		check(t, err)
		asked, err := Read(obj)
		check(t, err)
		got := strings.Join(asked.Mismatches(terms), "; ")
		if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
			t.Errorf("%s: %q, want %q", what, got, tc.says)
		}
	}
}
