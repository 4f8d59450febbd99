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
	"fmt"
	"math/big"
	"reflect"
	"runtime"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
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

// TestCrowd: of the requests by a join line so many wait for a person, those that were filed first, and all others are
// denied. What was denied takes little memory, and no time of those that are looked at later.
func TestCrowd(t *testing.T) {
	informers := &Informers{}
	informers.New(&cache.ListWatch{}, &certificatesv1.CertificateSigningRequest{}, 0, cache.Indexers{})
	of := func(name, by string, version int, conditions ...certificatesv1.CertificateSigningRequestCondition) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("0a1b2c3d-0000-4000-8000-" + name),
				ResourceVersion: fmt.Sprint(version), CreationTimestamp: metav1.NewTime(time.Unix(2e9, 0))},
			Spec:   certificatesv1.CertificateSigningRequestSpec{SignerName: csr.ClientSigner, Username: by, Request: []byte("a request")},
			Status: certificatesv1.CertificateSigningRequestStatus{Conditions: conditions}}
	}
	file := func(obj *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
		stub, err := Stub(obj)
		if err == nil {
			err = informers.requests.Add(stub)
		}
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	line, approved := bootstraptoken.UserPrefix+"abcdef", usualConditions[0][0]
	for _, by := range []string{line, clusterapi.JoinerUser} {
		file(of("approved-"+by, by, 1, approved))
		for i := range judge.MaxWaiting + 2 {
			obj := file(of(fmt.Sprintf("waits-%s-%d", by, i), by, 1000+i))
			d, err := judge.Decision{Verdict: judge.Person}.Bounded(obj, facts{requests: informers.requests})
			if denied := d.Verdict == judge.Deny; err != nil || denied != (i >= judge.MaxWaiting) {
				t.Fatalf("request %d by %s: %+v, %v", i, by, d, err)
			}
		}
		first := of("first-"+by, by, 999)
		if d, err := (judge.Decision{Verdict: judge.Person}).Bounded(first, facts{requests: informers.requests}); err != nil ||
			d.Verdict != judge.Person {
			t.Errorf("one that was filed before all others: %+v, %v", d, err)
		}
	}
	for _, by := range []string{bootstraptoken.UserPrefix + "zzzzzz", "jane"} {
		d, err := judge.Decision{Verdict: judge.Person}.Bounded(of("x", by, 9999), facts{requests: informers.requests})
		if err != nil || d.Verdict != judge.Person {
			t.Errorf("%s has to wait for others: %+v, %v", by, d, err)
		}
	}

	const n, most = 20_000, 1024
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range n {
		file(of(fmt.Sprintf("denied-%012d", i), line, 10_000+i, usualConditions[1][0]))
	}
	if each := (heap() - before) / n; each > most {
		t.Errorf("a denied request takes %d bytes, more than %d", each, most)
	} else {
		t.Logf("a denied request takes %d bytes", each)
	}
	for o := range (facts{requests: informers.requests}).Others(line, "") {
		if o.Version >= 10_000 {
			t.Fatalf("%s was denied, and is looked at", o.Name)
		}
	}
	runtime.KeepAlive(informers)
}
