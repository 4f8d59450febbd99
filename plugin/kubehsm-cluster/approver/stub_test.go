package approver

import (
	"bytes"
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
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: csr.ClientSigner, Username: "jane", UID: "forged",
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
	if want := (gist{sha256.Sum256(spki), sha256.Sum256(der), end.Unix()}); said == nil || *said != want {
		t.Errorf("the stub says %+v", said)
	}
	twice, err := Stub(once)
	if err != nil || !reflect.DeepEqual(once, twice) {
		t.Errorf("a stub of it is %+v, %v; want %+v", twice, err, once)
	}
}

// TestStubParsesNoKey: a stub is made without a look at keys and signatures, by whose size whoever files a request could
// keep the cache from ever being filled.
func TestStubParsesNoKey(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(2e9, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	broken := bytes.Replace(der, point, make([]byte, len(point)), 1) // no point of the curve
	if _, err := x509.ParseCertificate(broken); err == nil {
		t.Fatal("the key can be parsed")
	}
	obj := &certificatesv1.CertificateSigningRequest{
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: csr.ClientSigner, Request: []byte("a request")},
		Status: certificatesv1.CertificateSigningRequestStatus{
			Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: broken}),
			Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
				Status: corev1.ConditionTrue}}},
	}
	stub, err := Stub(obj)
	if err != nil {
		t.Fatal(err)
	}
	if said := gistOf(stub.(*certificatesv1.CertificateSigningRequest)); said == nil ||
		said.certificate != sha256.Sum256(broken) || said.end != 2e9 {
		t.Errorf("the stub says %+v", said)
	}
}
