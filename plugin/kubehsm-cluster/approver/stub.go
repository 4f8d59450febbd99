package approver

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"unique"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// gist is what is needed of what a stub has not.
type gist struct {
	serial string // serial number of the token that is said to have the key, not verified
	issued *issuedGist
}

// issuedGist is of a certificate: nil if there is none.
type issuedGist struct {
	key, certificate [sha256.Size]byte // SHA-256 of the SubjectPublicKeyInfo, and of the certificate
	end              int64             // end of the certificate in Unix seconds
}

// packed is the gist in one string.
func (g gist) packed() string {
	if g.issued == nil {
		return "p" + g.serial
	}
	b := append([]byte("i"), g.issued.key[:]...)
	b = append(b, g.issued.certificate[:]...)
	return string(append(binary.BigEndian.AppendUint64(b, uint64(g.issued.end)), g.serial...))
}

// gistOf is what a stub says. It stands in the place of the requester's UID: a map of annotations for each of
// tens of thousands of requests would take as much room as they do.
func gistOf(stub *certificatesv1.CertificateSigningRequest) (g gist) {
	kind, text := stub.Spec.UID[:min(1, len(stub.Spec.UID))], stub.Spec.UID[min(1, len(stub.Spec.UID)):]
	if kind == "i" {
		g.issued = &issuedGist{}
		text = text[copy(g.issued.key[:], text):]
		text = text[copy(g.issued.certificate[:], text):]
		g.issued.end = int64(binary.BigEndian.Uint64([]byte(text)))
		text = text[8:]
	}
	g.serial = text
	return g
}

// Stub is a request as the cache keeps it: without what it asks for, and without its
// certificate, which are most of it. A stub stays as it is: the cache makes them twice.
func Stub(in any) (any, error) {
	obj, ok := in.(*certificatesv1.CertificateSigningRequest)
	if !ok || len(obj.Spec.Request) == 0 { // a stub: the API server takes no request that asks for nothing
		return in, nil
	}
	var said gist
	state := csr.StateOf(obj).State
	switch {
	case obj.Spec.SignerName != csr.ClientSigner:
	case state == csr.Pending:
		said.serial = claimedSerial(obj)
	case state == csr.Issued:
		cert, err := csr.ParseCertificate(obj.Status.Certificate)
		if err != nil {
			break // the certificate is not a client's
		}
		said.serial = claimedSerial(obj)
		said.issued = &issuedGist{key: sha256.Sum256(cert.Leaf.RawSubjectPublicKeyInfo),
			certificate: sha256.Sum256(cert.Leaf.Raw), end: cert.Leaf.NotAfter.Unix()}
	}
	stub := &certificatesv1.CertificateSigningRequest{
		TypeMeta: obj.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: obj.Name, ResourceVersion: obj.ResourceVersion,
			CreationTimestamp: obj.CreationTimestamp, DeletionTimestamp: obj.DeletionTimestamp},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: once(obj.Spec.SignerName), UID: said.packed()},
	}
	if byToken(obj) { // only those are compared, see [facts.Others]
		stub.UID, stub.Spec.Username = obj.UID, obj.Spec.Username
	}
	for _, c := range obj.Status.Conditions {
		stub.Status.Conditions = append(stub.Status.Conditions,
			certificatesv1.CertificateSigningRequestCondition{Type: once(c.Type), Status: once(c.Status)})
	}
	for _, usual := range usualConditions {
		if slices.Equal(stub.Status.Conditions, usual) {
			stub.Status.Conditions = usual
		}
	}
	if state == csr.Issued {
		stub.Status.Certificate = there
	}
	return stub, nil
}

// byToken tells whether the request was filed with a bootstrap token. Only tickets are good for one request.
func byToken(obj *certificatesv1.CertificateSigningRequest) bool {
	return strings.HasPrefix(obj.Spec.Username, bootstraptoken.UserPrefix)
}

// What thousands of stubs have, in one place.
var (
	usualConditions = [][]certificatesv1.CertificateSigningRequestCondition{
		{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}},
		{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue}},
	}
	there = []byte{0} // in the place of a certificate
)

// once is the same string in one place: thousands of stubs and tokens have it.
func once[S ~string](s S) S { return S(unique.Make(string(s)).Value()) }

// Slim is a token as the cache keeps it: without its history and UID, and with the strings that
// thousands of tokens have in one place. Writes are bound to its version, which no other token has.
func Slim(in any) (any, error) {
	t, ok := in.(*clusterapi.HardwareToken)
	if !ok {
		return in, nil
	}
	t.ManagedFields, t.UID = nil, ""
	t.Kind, t.APIVersion, t.Namespace = once(t.Kind), once(t.APIVersion), once(t.Namespace)
	t.Spec.State = once(t.Spec.State)
	t.Spec.Groups = slices.Clone(t.Spec.Groups) // the decoder left room for more
	for i, g := range t.Spec.Groups {
		t.Spec.Groups[i] = once(g)
	}
	s := &t.Status
	s.Tickets = slices.Clone(s.Tickets)
	s.Model, s.Firmware, s.PIN, s.Touch = once(s.Model), once(s.Firmware), once(s.PIN), once(s.Touch)
	return t, nil
}

// Bare is an object as the cache keeps it that is never written from there: without labels and annotations, which may
// be large, and are whatever the help desk likes.
func Bare(in any) (any, error) {
	if o, ok := in.(client.Object); ok {
		o.SetManagedFields(nil)
		o.SetLabels(nil)
		o.SetAnnotations(nil)
	}
	return in, nil
}

func claimedSerial(obj *certificatesv1.CertificateSigningRequest) string {
	asked, err := judge.Read(obj)
	if err != nil {
		return ""
	}
	carried, err := attest.FromExtensions(asked.Extensions)
	if err != nil {
		return ""
	}
	s, err := attest.Parse(carried)
	if err != nil {
		return ""
	}
	return s.Serial
}

// The fields that the cache finds objects by: the first four find a [bucket] of them.
const (
	byRequester = "requester"
	bySerial    = "serial"
	byKey       = "key"
	byOtherKey  = "otherKey"
	byRevoked   = "revoked"
)

// bucket is what objects are found by that are found by a value of their own: each value that an index has
// takes a map, which for tens of thousands of values is more than the objects take.
func bucket(value string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(value)) // a hash cannot fail
	return strconv.Itoa(int(h.Sum32() % buckets))
}

const buckets = 256

// Index sets up what [facts] finds objects by.
func Index(ctx context.Context, to client.FieldIndexer) error {
	for _, i := range []struct {
		of   client.Object
		by   string
		keys client.IndexerFunc
	}{
		{&certificatesv1.CertificateSigningRequest{}, byRequester, func(o client.Object) []string {
			if obj := o.(*certificatesv1.CertificateSigningRequest); byToken(obj) {
				return []string{bucket(obj.Spec.Username)}
			}
			return nil
		}},
		{&certificatesv1.CertificateSigningRequest{}, bySerial, func(o client.Object) []string {
			obj := o.(*certificatesv1.CertificateSigningRequest)
			serial := gistOf(obj).serial
			if serial == "" || !is(obj, csr.Pending) {
				return nil
			}
			return []string{bucket(serial)}
		}},
		{tokenKind(), byKey, tokenKeys},
		{tokenKind(), byOtherKey, otherKeys},
		{&admissionregistrationv1.ValidatingAdmissionPolicy{}, byRevoked, revokedBy},
		{&clusterapi.Revocation{}, byRevoked, namedBy},
	} {
		if err := to.IndexField(ctx, i.of, i.by, i.keys); err != nil {
			return err
		}
	}
	return nil
}
