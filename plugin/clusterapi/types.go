package clusterapi

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// Namespace is where all objects of this API are.
	Namespace = "kubehsm-system"
	// Joiner is the service account, in Namespace, whose tokens can only file requests.
	Joiner = "kubehsm-joiner"
	// JoinerUser is the user name of Joiner.
	JoinerUser = "system:serviceaccount:" + Namespace + ":" + Joiner
	// RightsMissing is the reason of the Events that say what the approver may not do.
	RightsMissing = "RightsMissing"
	// PolicyName is the name of the only [EnrollmentPolicy] that counts.
	PolicyName = "default"
	// PresentCertificate is the annotation of a renewal that carries the certificate
	// it was filed with: base64 of its DER. What it says counts only if its SHA-256
	// is the one that the API server wrote on the request.
	PresentCertificate = "kubehsm.github.io/present-certificate"
)

// GroupVersion is that of this API.
var GroupVersion = schema.GroupVersion{Group: "kubehsm.github.io", Version: "v1alpha1"}

// AddToScheme makes the kinds known.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &HardwareToken{}, &HardwareTokenList{}, &RequestReview{}, &RequestReviewList{},
		&EnrollmentPolicy{}, &EnrollmentPolicyList{}, &Revocation{}, &RevocationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// HardwareToken is an entry of the roster: a token and whose it is. Its name is the
// serial number, as the token's attestation tells it.
//
// +kubebuilder:object:root=true
type HardwareToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TokenSpec   `json:"spec,omitempty"`
	Status TokenStatus `json:"status,omitempty"`
}

// HardwareTokenList is what a list answers.
//
// +kubebuilder:object:root=true
type HardwareTokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []HardwareToken `json:"items"`
}

// TokenState is where a token is in its life.
type TokenState string

// The states of a token. Keys in one that is in stock, lost or retired get no
// certificate.
const (
	Stock     TokenState = "Stock"
	HandedOut TokenState = "HandedOut"
	Active    TokenState = "Active"
	Lost      TokenState = "Lost"
	Retired   TokenState = "Retired"
)

// TokenSpec is what people say of a token.
type TokenSpec struct {
	// Owner is the user name, and Groups are the groups, that a key in it may stand for.
	Owner  string   `json:"owner,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Horizon is when its last certificate ends at the latest; nil means never.
	Horizon *metav1.Time `json:"horizon,omitempty"`
	State   TokenState   `json:"state"`
}

// TokenStatus is what the approver knows of a token.
type TokenStatus struct {
	// Tickets are those that it was enrolled with in the last day, each for one request.
	Tickets []UsedTicket `json:"tickets,omitempty"`
	// Key is the SHA-256 of the SubjectPublicKeyInfo of its key, in hex.
	Key string `json:"key,omitempty"`
	// Model, Firmware, PIN and Touch are from the attestation of that key.
	Model    string `json:"model,omitempty"`
	Firmware string `json:"firmware,omitempty"`
	PIN      string `json:"pin,omitempty"`
	Touch    string `json:"touch,omitempty"`
	// Certificate is the SHA-256 of the last certificate, in hex, NotAfter its end.
	Certificate string       `json:"certificate,omitempty"`
	NotAfter    *metav1.Time `json:"notAfter,omitempty"`
	// Others are further certificates that have not ended, and those that were approved and are not issued yet, at most
	// [MaxOthers]: those that end last.
	Others []TokenCertificate `json:"others,omitempty"`
}

const (
	// MaxLive is how many certificates of a token are valid at a time: the approver denies a further one.
	MaxLive = 8
	// MaxOthers is how many further certificates of a token the roster keeps. More than MaxLive there are only where an
	// admin has approved requests.
	MaxOthers = 99
)

// TokenCertificate is one of a token's: its SHA-256 and that of its SubjectPublicKeyInfo, in hex, and its end.
type TokenCertificate struct {
	Certificate string      `json:"certificate"`
	Key         string      `json:"key,omitempty"`
	NotAfter    metav1.Time `json:"notAfter"`
	// Request is the UID of a request that was approved, until its certificate is issued. Until then Certificate is ""
	// and NotAfter the latest end.
	Request types.UID `json:"request,omitempty"`
}

// Live are the certificates that have not ended at now, the last one first.
func (s TokenStatus) Live(now time.Time) []TokenCertificate {
	return slices.DeleteFunc(s.Granted(now), func(c TokenCertificate) bool { return c.Certificate == "" })
}

// Granted are those that are [TokenStatus.Live], and those that were approved and are not issued yet.
func (s TokenStatus) Granted(now time.Time) (all []TokenCertificate) {
	if s.Certificate != "" && s.NotAfter != nil && s.NotAfter.After(now) {
		all = append(all, TokenCertificate{Certificate: s.Certificate, Key: s.Key, NotAfter: *s.NotAfter})
	}
	for _, c := range s.Others {
		if c.NotAfter.After(now) {
			all = append(all, c)
		}
	}
	return all
}

// Knows tells whether a key with this SHA-256 is the token's: that of its last certificate, or of a further one.
func (s TokenStatus) Knows(key string) bool {
	return s.Key == key || slices.ContainsFunc(s.Others, func(c TokenCertificate) bool { return c.Key == key })
}

// UsedTicket is a ticket and the request that it was good for.
type UsedTicket struct {
	ID      string      `json:"id"`
	Request types.UID   `json:"request"`
	Time    metav1.Time `json:"time"`
}

// RequestReview is a request that a person decides on. The approver makes it, with
// the [ReviewName] of the request, and says in its status what there is to know; a person
// writes the decision into its spec, once; the approver acts on it.
//
// +kubebuilder:object:root=true
type RequestReview struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReviewSpec   `json:"spec,omitempty"`
	Status ReviewStatus `json:"status,omitempty"`
}

// RequestReviewList is what a list answers.
//
// +kubebuilder:object:root=true
type RequestReviewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RequestReview `json:"items"`
}

// hashed begins the names of reviews that are not named as their request.
const hashed = "kubehsm-"

// ReviewName is the name of the review of a request: that of the request, unless a review may not have it, or another
// one might.
func ReviewName(request string) string {
	if len(validation.IsDNS1123Subdomain(request)) == 0 && !strings.HasPrefix(request, hashed) {
		return request
	}
	sum := sha256.Sum256([]byte(request))
	return hashed + hex.EncodeToString(sum[:])
}

// TicketUse is the name of the review that keeps which request a ticket was used for.
func TicketUse(ticket string) string { return hashed + "ticket-" + ticket }

// ReviewSpec names the request, and holds what was decided on it.
type ReviewSpec struct {
	// Request is the UID of the CertificateSigningRequest.
	Request types.UID `json:"request"`
	// Decision is nil until somebody has decided.
	Decision *PersonDecision `json:"decision,omitempty"`
}

// PersonDecision is what a person decided.
type PersonDecision struct {
	Approve bool `json:"approve"`
	// By is the user name of who decided; admission compares it with who writes it.
	By string `json:"by"`
	// Reason is one CamelCase word, Message a sentence; both may be empty.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ReviewStatus is what the approver says of a request.
type ReviewStatus struct {
	// Reason is why a person must decide, in one CamelCase word, Message in words.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// AdminOnly tells that the help desk cannot approve it, but only somebody who may
	// approve for the signer.
	AdminOnly bool `json:"adminOnly,omitempty"`
	// Token is the serial number of the token that the key is proven to be in, "" if none is: what the roster says of
	// it decides on the request.
	Token string `json:"token,omitempty"`
	// Refused is why an earlier decision to approve was not carried out, in words; "" if there was none.
	// That decision has ended: the review was made again, for another one.
	Refused string `json:"refused,omitempty"`
}

// EnrollmentPolicy binds everybody, the approver and the help desk. Without one
// nothing is approved.
//
// +kubebuilder:object:root=true
type EnrollmentPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PolicySpec   `json:"spec,omitempty"`
	Status PolicyStatus `json:"status,omitempty"`
}

// PolicyStatus is what the approver says of the policy.
type PolicyStatus struct {
	// Problem is why nothing is approved by it, in words; "" if it can be read.
	Problem string `json:"problem,omitempty"`
}

// EnrollmentPolicyList is what a list answers.
//
// +kubebuilder:object:root=true
type EnrollmentPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []EnrollmentPolicy `json:"items"`
}

// PolicySpec is what certificates may be like.
type PolicySpec struct {
	// Groups are those that may be given; one may have a * in it. Empty allows all but
	// those that begin with system: or kubehsm:, which are never given.
	Groups []string `json:"groups,omitempty"`
	// MaxLifetime is the longest that a request may ask for.
	MaxLifetime metav1.Duration `json:"maxLifetime"`
	// Horizon is how long a token that was enrolled with a ticket may renew its
	// certificates; 0 is without end.
	Horizon metav1.Duration `json:"horizon,omitempty"`
	// Attestation is what is asked of every key whose attestation approves it.
	Attestation AttestationPolicy `json:"attestation,omitempty"`
	// DeskUsers and DeskGroups are the user names and groups that the help desk may give, by its tickets,
	// the roster and reviews; one may have a * in it. None listed is none: an admin gives all others.
	DeskUsers  []string `json:"deskUsers,omitempty"`
	DeskGroups []string `json:"deskGroups,omitempty"`
	// RenewUnrostered lets a certificate renew itself whose key is in no token of the
	// roster, for ever: nothing but its end stops it.
	RenewUnrostered bool `json:"renewUnrostered,omitempty"`
}

// AttestationPolicy is what the attestation of a key must prove. The zero value
// asks for one that is traced to Yubico.
type AttestationPolicy struct {
	// Roots are PEM certificates that are trusted in the place of Yubico's.
	Roots string `json:"roots,omitempty"`
	// MinFirmware is the lowest version, such as "5.4.3".
	MinFirmware string `json:"minFirmware,omitempty"`
	// PIN is "once" or "always", Touch "cached" or "always"; "" asks for nothing.
	PIN   string `json:"pin,omitempty"`
	Touch string `json:"touch,omitempty"`
	// FIPS asks for a device of a FIPS series.
	FIPS bool `json:"fips,omitempty"`
}
