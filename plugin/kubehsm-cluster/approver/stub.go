package approver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unique"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// stubMark is the annotation of a stub: the API server takes no such name from anybody. Its value is a
// [gist], in one string: a map for each of tens of thousands of requests would take more room than they do.
const stubMark = "/stub"

// gist is what is needed of what a stub has not.
type gist struct {
	serial      string // serial number of the token that is said to have the key, not verified
	key         string // SHA-256 of the certificate's SubjectPublicKeyInfo
	certificate string // SHA-256 of the certificate
	end         string // end of the certificate, RFC 3339
}

func (g gist) String() string {
	return strings.Join([]string{g.serial, g.key, g.certificate, g.end}, "\n")
}

// gistOf is what a stub says.
func gistOf(stub client.Object) (g gist) {
	if parts := strings.Split(stub.GetAnnotations()[stubMark], "\n"); len(parts) == 4 {
		g.serial, g.key, g.certificate, g.end = parts[0], parts[1], parts[2], parts[3]
	}
	return g
}

// Stub is a request as the cache keeps it: without what it asks for, and without its
// certificate, which are most of it. A stub stays as it is: the cache makes them twice.
func Stub(in any) (any, error) {
	obj, ok := in.(*certificatesv1.CertificateSigningRequest)
	if !ok || len(obj.Spec.Request) == 0 && obj.Annotations[stubMark] != "" {
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
		sum := sha256.Sum256(cert.Leaf.Raw)
		said.certificate, said.serial = hex.EncodeToString(sum[:]), claimedSerial(obj)
		said.end = cert.Leaf.NotAfter.UTC().Format(time.RFC3339)
		if said.key, err = csr.SPKIHash(cert.Leaf.PublicKey); err != nil {
			return nil, err
		}
	}
	stub := &certificatesv1.CertificateSigningRequest{
		TypeMeta: obj.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: obj.Name, UID: obj.UID, ResourceVersion: obj.ResourceVersion,
			CreationTimestamp: obj.CreationTimestamp, DeletionTimestamp: obj.DeletionTimestamp,
			Annotations: map[string]string{stubMark: said.String()}},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: once(obj.Spec.SignerName),
			Username: obj.Spec.Username},
	}
	for _, c := range obj.Status.Conditions {
		stub.Status.Conditions = append(stub.Status.Conditions,
			certificatesv1.CertificateSigningRequestCondition{Type: once(c.Type), Status: once(c.Status)})
	}
	if state == csr.Issued {
		stub.Status.Certificate = []byte{0} // the certificate is there
	}
	return stub, nil
}

// once is the same string in one place: thousands of stubs and tokens have it.
func once[S ~string](s S) S { return S(unique.Make(string(s)).Value()) }

// Slim is a token as the cache keeps it: without its history, and with the strings that
// thousands of tokens have in one place.
func Slim(in any) (any, error) {
	t, ok := in.(*clusterapi.HardwareToken)
	if !ok {
		return in, nil
	}
	t.ManagedFields = nil
	t.Kind, t.APIVersion, t.Namespace = once(t.Kind), once(t.APIVersion), once(t.Namespace)
	t.Spec.State = once(t.Spec.State)
	for i, g := range t.Spec.Groups {
		t.Spec.Groups[i] = once(g)
	}
	s := &t.Status
	s.Model, s.Firmware, s.PIN, s.Touch = once(s.Model), once(s.Firmware), once(s.PIN), once(s.Touch)
	return t, nil
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
	return strings.ReplaceAll(s.Serial, "\n", "")
}

// The fields that the cache finds objects by.
const (
	byRequester = "requester"
	bySerial    = "serial"
	byKey       = "key"
	bySubject   = "subject"
	byRevoked   = "revoked"
)

// Index sets up what [Facts] finds objects by.
func Index(ctx context.Context, to client.FieldIndexer) error {
	for _, i := range []struct {
		of   client.Object
		by   string
		keys client.IndexerFunc
	}{
		{&certificatesv1.CertificateSigningRequest{}, byRequester, func(o client.Object) []string {
			user := o.(*certificatesv1.CertificateSigningRequest).Spec.Username
			if !strings.HasPrefix(user, bootstraptoken.UserPrefix) {
				return nil // only tickets are good for one request
			}
			return []string{user}
		}},
		{&certificatesv1.CertificateSigningRequest{}, bySerial, func(o client.Object) []string {
			serial := gistOf(o).serial
			if serial == "" || !is(o.(*certificatesv1.CertificateSigningRequest), csr.Pending) {
				return nil
			}
			return []string{serial}
		}},
		{tokenKind(), byKey, tokenKeys},
		{bindingKinds()[0], bySubject, subjectsOf},
		{bindingKinds()[1], bySubject, subjectsOf},
		{&admissionregistrationv1.ValidatingAdmissionPolicy{}, byRevoked, revokedBy},
		{&clusterapi.Revocation{}, byRevoked, namedBy},
	} {
		if err := to.IndexField(ctx, i.of, i.by, i.keys); err != nil {
			return err
		}
	}
	return nil
}
