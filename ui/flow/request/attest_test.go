package request

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestJudge: what an approver is told of the attestation in a request. A
// genuine one of somebody else's key must not pass.
func TestJudge(t *testing.T) {
	b, err := os.ReadFile("../../../hsm/attest/testdata/yubikey5.pem")
	must.OK(t, err)
	genuine, err := attest.DecodePEM(b)
	must.OK(t, err)
	m := flowtest.NewMaker(t)
	key := m.NewKey()
	ours := attest.Verifier{Roots: []*x509.Certificate{m.Root}}
	for name, tc := range map[string]struct {
		carries       []pkix.Extension
		by            attest.Verifier
		says, warning string
	}{
		"none":          {nil, ours, "none: ", ""},
		"verified":      {attest.Extensions(m.Attest(key, 1)), ours, "verified to Test Root: generated on YubiKey", ""},
		"unknown maker": {attest.Extensions(m.Attest(key, 1)), attest.Verifier{}, "present, not verified", "not traced to a trusted maker"},
		"of another":    {attest.Extensions(m.Attest(m.NewKey(), 1)), ours, "present, not verified", "is for another key"},
		"borrowed":      {attest.Extensions(genuine), attest.Verifier{}, "present, not verified", "is for another key"},
		"half":          {attest.Extensions(genuine)[:1], attest.Verifier{}, "present, not verified", "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			pkcs10, err := csr.NewRequest(key, csr.Subject{User: "jane"}, csr.RequestOptions{ExtraExtensions: tc.carries})
			must.OK(t, err)
			v := ViewOf(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: pkcs10, Username: "jane"}})
			v.judge(tc.by)
			warnings := strings.Join(v.Warnings, "\n")
			if !strings.HasPrefix(v.Attestation, tc.says) || !strings.Contains(warnings, tc.warning) ||
				(tc.warning == "") != (warnings == "") || v.Attested != (name == "verified") {
				t.Errorf("attestation %q, attested %t, warnings %q", v.Attestation, v.Attested, warnings)
			}
		})
	}
}
