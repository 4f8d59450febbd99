package approver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"reflect"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/csr"
)

// The cache makes stubs of what are stubs already: nothing is lost then. What users write
// on a request is not taken for what a stub says.
func TestStubTwice(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jane"}, NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	obj := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "jane-1", Annotations: map[string]string{"/stub": "1\nx\n\n"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: csr.ClientSigner, Username: "jane", UID: "pforged",
			Request: []byte("a request")},
		Status: certificatesv1.CertificateSigningRequestStatus{
			Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
				Status: corev1.ConditionTrue}}},
	}
	once, err := Stub(obj)
	if err != nil {
		t.Fatal(err)
	}
	said := gistOf(once.(*certificatesv1.CertificateSigningRequest))
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if want := (issuedGist{sha256.Sum256(spki), sha256.Sum256(der), end.Unix()}); said.serial != "" ||
		said.issued == nil || *said.issued != want {
		t.Errorf("the stub says %+v", said)
	}
	twice, err := Stub(once)
	if err != nil || !reflect.DeepEqual(once, twice) {
		t.Errorf("a stub of it is %+v, %v; want %+v", twice, err, once)
	}
}
