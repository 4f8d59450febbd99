package judge

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// Cluster is what a judge asks of the cluster. Errors end the judgement: nothing is
// decided on half of the facts.
type Cluster interface {
	// Token is the roster's entry for a serial number, nil if there is none.
	Token(serial string) (*clusterapi.HardwareToken, error)
	// TokenWithKey is the entry with a key that has this SHA-256, whoever owns it, nil if there is none.
	TokenWithKey(spkiHash string) (*clusterapi.HardwareToken, error)
	// Others are the other requests that the same requester has filed, without those that were denied.
	Others(requester string, except types.UID) iter.Seq2[Other, error]
	// UsedFor is the request that a ticket which names no token was used for, "" if there was none.
	UsedFor(ticket string) (types.UID, error)
	// Revoked says what speaks against a request that was filed with a certificate and is for a key,
	// by the cluster's list of revoked certificates. Both are given as SHA-256, "" for none. If
	// nothing does, [revocation.ErrUnreadable] says that a part of the list cannot be read.
	Revoked(certificate, key string) ([]string, error)
}

// Other is a request beside the one that is judged.
type Other struct {
	UID types.UID
	// Name is for people.
	Name string
	// Version is the resource version: while nobody has decided on two requests, the one that was filed first has
	// the lower one.
	Version  uint64
	Approved bool
}

// Version is the resource version of a request.
func Version(obj *certificatesv1.CertificateSigningRequest) (uint64, error) {
	version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	if err != nil {
		err = fmt.Errorf("the version of request %s: %w", obj.Name, err)
	}
	return version, err
}

// Verdict is what becomes of a request.
type Verdict string

// The verdicts. A request that is none of the approver's business is left alone.
const (
	Approve Verdict = "Approve"
	Deny    Verdict = "Deny"
	Person  Verdict = "Person"
	Leave   Verdict = "Leave"
)

// Decision is the verdict on a request.
type Decision struct {
	Verdict
	// Reason is one CamelCase word, of a small set; Message says it in words, for the
	// requester to read.
	Reason, Message string
	// AdminOnly: where a person decides, the help desk may not approve it. That is the rule:
	// the help desk may where the bounds were kept, and the names are its to give.
	AdminOnly bool
	// Ticket is the ID of the ticket that it was filed with, Terms what that allows;
	// nil if there is none or nobody knows.
	Ticket string
	Terms  *ticket.Terms
	// Statement is what the attestation proves, nil if nothing.
	Statement *attest.Statement
	// Token is the roster's entry that the verdict rests on, nil if there is none.
	Token *clusterapi.HardwareToken
}

// Judge judges by a policy.
type Judge struct {
	policy   clusterapi.PolicySpec
	verifier attest.Verifier
	firmware []int
}

// New makes a judge. The error is that of a policy that cannot be read.
func New(policy clusterapi.PolicySpec) (*Judge, error) {
	j := &Judge{policy: policy}
	for block, rest := pem.Decode([]byte(policy.Attestation.Roots)); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the policy's attestation roots: %w", err)
		}
		j.verifier.Roots = append(j.verifier.Roots, root)
	}
	if policy.Attestation.Roots != "" && len(j.verifier.Roots) == 0 {
		return nil, errors.New("the policy's attestation roots hold no PEM certificate")
	}
	var err error
	if j.firmware, err = version(policy.Attestation.MinFirmware); err != nil {
		return nil, fmt.Errorf("the policy's lowest firmware: %w", err)
	}
	return j, nil
}

// Proven is what the attestation in the request proves, by the makers that the policy trusts:
// [attest.ErrNone] if there is none.
func (j *Judge) Proven(a Asked) (attest.Statement, error) { return a.Attested(j.verifier) }

// The reasons of decisions: labels of metrics, so there are few.
const (
	ReasonTicket      = "TicketProven"
	ReasonRenewal     = "SelfRenewal"
	ReasonRoster      = "OnRoster"
	ReasonPerson      = "ByPerson"
	ReasonNoPolicy    = "NoPolicy"
	ReasonUnreadable  = "Unreadable"
	ReasonOdd         = "Odd"
	ReasonReserved    = "ReservedName"
	ReasonTerms       = "NotAsTicket"
	ReasonTicketUsed  = "TicketUsed"
	ReasonAttestation = "AttestationInvalid"
	ReasonUnproven    = "NotProven"
	ReasonPolicy      = "AgainstPolicy"
	ReasonLifetime    = "TooLong"
	ReasonNotForDesk  = "NotForDesk"
	ReasonToken       = "TokenNotInUse"
	ReasonOwner       = "NotTheOwner"
	ReasonGroups      = "GroupsAdded"
	ReasonHorizon     = "HorizonPassed"
	ReasonUnknown     = "NotOnRoster"
	ReasonTooMany     = "TooManyCertificates"
	ReasonKeyUsed     = "KeyHasCertificate"
	ReasonEarly       = "TooEarly"
	ReasonCredential  = "OtherCredential"
	ReasonForeign     = "Foreign"
	ReasonRevoked     = "Revoked"
	ReasonUnreadList  = "RevocationUnknown"
	ReasonCrowd       = "TooManyWaiting"
)

// The prefixes of names that are not for people to have.
const (
	systemPrefix  = "system:"
	kubehsmPrefix = "kubehsm:"
)

// BreakGlassGroup may do everything, for an hour: a second person decides on requests for it.
const BreakGlassGroup = "kubehsm:break-glass"

// trial is the judgement of one request.
type trial struct {
	*Judge
	Asked
	Decision
	cluster Cluster
	now     time.Time
	// proof is why there is no statement.
	proof error
}

// Decide judges a request at now. Nothing but what is proven is approved, and what is
// denied is one of ours: filed with a ticket, by the holder of the certificate that it
// renews, for an attested key of the roster, or for the key of a revoked certificate.
func (j *Judge) Decide(
	obj *certificatesv1.CertificateSigningRequest,
	cluster Cluster,
	now time.Time,
) (Decision, error) {
	t := &trial{Judge: j, cluster: cluster, now: now}
	if obj.Spec.SignerName != csr.ClientSigner || csr.StateOf(obj).State != csr.Pending {
		return t.says(Leave, ReasonForeign, "")
	}
	var err error
	switch t.Asked, err = Read(obj); {
	case errors.Is(err, csr.ErrBound) && ByJoiner(obj):
		return t.says(Deny, ReasonUnreadable, err.Error())
	case err != nil:
		return t.says(Person, ReasonUnreadable, "the request cannot be read: "+err.Error())
	}
	if slices.Contains(t.Subject.Groups, BreakGlassGroup) && !t.withTicket() {
		return t.says(Leave, ReasonReserved, "")
	}
	statement, err := t.Attested(j.verifier)
	if t.proof = err; err == nil {
		t.Statement = &statement
	}
	itself := obj.Spec.Username == t.Subject.User
	if itself && !t.withTicket() && strings.HasPrefix(obj.Spec.Username, systemPrefix) {
		return t.says(Leave, ReasonForeign, "") // a part of the cluster renews its own
	}
	why, unread := cluster.Revoked(revocation.Used(obj.Spec.Extra), t.SPKIHash)
	switch {
	case unread != nil && !errors.Is(unread, revocation.ErrUnreadable):
		return t.Decision, unread
	case len(why) > 0:
		return t.says(Deny, ReasonRevoked, strings.Join(why, "; "))
	}
	for _, g := range t.Subject.Groups {
		if strings.HasPrefix(g, kubehsmPrefix) && !t.withTicket() {
			return t.says(Person, ReasonReserved, fmt.Sprintf("an admin gives the group %q", g))
		}
	}
	d, err := unrevoked(t, itself)
	if err == nil && unread != nil && d.Verdict == Approve {
		return t.desk(ReasonUnreadList, "whether it is revoked is not known: "+unread.Error())
	}
	return d, err
}

// unrevoked judges a request that is not for what is revoked; itself tells that its user filed it.
func unrevoked(t *trial, itself bool) (Decision, error) {
	switch {
	case t.withTicket():
		return t.byTicket()
	case !itself:
		return t.byRoster()
	}
	own, err := ours(t)
	switch {
	case err != nil:
		return t.Decision, err
	case own:
		return t.renewal()
	default:
		return t.byRoster()
	}
}

// says returns a verdict. What it leaves to a person is for an admin, see [trial.desk].
func (t *trial) says(v Verdict, reason, message string) (Decision, error) {
	t.Verdict, t.Reason, t.Message, t.AdminOnly = v, reason, message, v == Person
	return t.Decision, nil
}

// desk leaves the request to a person, who may be of the help desk. It comes after
// [trial.bounds] and [trial.ofDesk].
func (t *trial) desk(reason, message string) (Decision, error) {
	t.Verdict, t.Reason, t.Message, t.AdminOnly = Person, reason, message, false
	return t.Decision, nil
}
