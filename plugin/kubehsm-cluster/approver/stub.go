package approver

import (
	"context"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"hash/fnv"
	"slices"
	"strconv"
	"time"
	"unique"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// gist is what is needed of a certificate that a stub has not.
type gist struct {
	key, certificate [sha256.Size]byte // SHA-256 of the SubjectPublicKeyInfo, and of the certificate
	end              int64             // end of the certificate in Unix seconds
}

// packed is the gist in one string.
func (g gist) packed() string {
	b := slices.Concat(g.key[:], g.certificate[:])
	return string(binary.BigEndian.AppendUint64(b, uint64(g.end)))
}

// gistOf is what a stub says of its certificate, nil if there is none. It stands in the place of the requester's UID: a
// map of annotations for each of tens of thousands of requests would take as much room as they do.
func gistOf(stub *certificatesv1.CertificateSigningRequest) *gist {
	text := stub.Spec.UID
	if text == "" {
		return nil
	}
	g := &gist{}
	text = text[copy(g.key[:], text):]
	text = text[copy(g.certificate[:], text):]
	g.end = int64(binary.BigEndian.Uint64([]byte(text)))
	return g
}

// outline is the DER of a certificate as far as a gist needs it. Its key and its signature are not parsed: who files a
// request chooses the key, and the cache makes its stubs one after the other, for everybody.
type outline struct {
	Raw    asn1.RawContent
	Signed struct {
		Version                   int `asn1:"optional,explicit,default:0,tag:0"`
		Serial, Algorithm, Issuer asn1.RawValue
		Validity                  struct{ From, Until time.Time }
		Subject, Key              asn1.RawValue
	}
}

// issuedGist is the gist of the first certificate in PEM, which is the requester's; nil if it cannot be read.
func issuedGist(chain []byte) *gist {
	block, _ := pem.Decode(chain)
	if block == nil {
		return nil
	}
	var cert outline
	if _, err := asn1.Unmarshal(block.Bytes, &cert); err != nil {
		return nil
	}
	return &gist{key: sha256.Sum256(cert.Signed.Key.FullBytes), certificate: sha256.Sum256(cert.Raw),
		end: cert.Signed.Validity.Until.Unix()}
}

// Stub is a request as the cache keeps it: without what it asks for, which nobody has looked at yet, and without its
// certificate. These are most of it. A stub stays as it is: the cache makes them twice.
func Stub(in any) (any, error) {
	obj, ok := in.(*certificatesv1.CertificateSigningRequest)
	if !ok || len(obj.Spec.Request) == 0 { // a stub: the API server takes no request that asks for nothing
		return in, nil
	}
	state := csr.StateOf(obj).State
	stub := &certificatesv1.CertificateSigningRequest{
		TypeMeta: obj.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: obj.Name, ResourceVersion: obj.ResourceVersion,
			CreationTimestamp: obj.CreationTimestamp, DeletionTimestamp: obj.DeletionTimestamp},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: once(obj.Spec.SignerName)},
	}
	if obj.Spec.SignerName == csr.ClientSigner && state == csr.Issued {
		if said := issuedGist(obj.Status.Certificate); said != nil {
			stub.Spec.UID = said.packed()
		}
	}
	if judge.ByJoiner(obj) && state != csr.Denied { // only those are compared, see [facts.Others]
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

// requesters has a stub in the bucket of its requester.
func requesters(o any) ([]string, error) {
	if obj, ok := o.(*certificatesv1.CertificateSigningRequest); ok && obj.Spec.Username != "" {
		return []string{bucket(obj.Spec.Username)}, nil
	}
	return nil, nil
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

// The fields that the cache finds objects by: the first four find a [bucket] of them.
const (
	byRequester = "requester"
	byToken     = "token"
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
		{&clusterapi.RequestReview{}, byToken, func(o client.Object) []string {
			return []string{bucket(o.(*clusterapi.RequestReview).Status.Token)}
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
