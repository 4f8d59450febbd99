package clusterapi

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/csr/revocation"
)

// MaxRevoked is how many certificates one [Revocation] names at most.
const MaxRevoked = 100

// InForce is the condition of a [Revocation] that says whether the API server refuses what its
// certificates write.
const InForce = "InForce"

// Revocation has the approver keep certificates from writing until they end. The help desk makes
// it. The approver puts the certificates into the admission policies, and approves no request for
// their keys as soon as the Revocation is there. It is never changed, except that an admin may take
// certificates out of it, or delete it, to lift the revocation. That alone lifts nothing, as the
// policies are the list: `kubehsm revocation lift` does both.
//
// +kubebuilder:object:root=true
type Revocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RevocationSpec   `json:"spec,omitempty"`
	Status RevocationStatus `json:"status,omitempty"`
}

// RevocationList is what a list answers.
//
// +kubebuilder:object:root=true
type RevocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Revocation `json:"items"`
}

// RevocationSpec is what is revoked, and by whom.
type RevocationSpec struct {
	// Certificates are from one to [MaxRevoked].
	Certificates []RevokedCertificate `json:"certificates"`
	// User is whom they were for, "" if that is not known; Reason is what the user reads when a
	// write is refused, and may be empty.
	User   string `json:"user,omitempty"`
	Reason string `json:"reason,omitempty"`
	// By is the user name of who revoked them; admission compares it with who writes it.
	By string `json:"by"`
}

// RevokedCertificate is one of them. Hashes have 64 lower-case hex digits.
type RevokedCertificate struct {
	// Fingerprint is the SHA-256 of its DER form.
	Fingerprint string `json:"fingerprint"`
	// Key is the SHA-256 of its SubjectPublicKeyInfo, "" if it is not known.
	Key string `json:"key,omitempty"`
	// NotAfter is when it ends, and its revocation with it; nil means never.
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// RevocationStatus is what became of it.
type RevocationStatus struct {
	// InForceSince is when an API server first enforced all of it; nil before.
	InForceSince *metav1.Time `json:"inForceSince,omitempty"`
	// Certificates is how many of its certificates are in the policies.
	Certificates int32 `json:"certificates,omitempty"`
	// Until is when the last of them ends, which can read until then; nil if that is not known.
	Until *metav1.Time `json:"until,omitempty"`
	// Conditions has [InForce].
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Entries are what the list of revoked certificates is to have. The time is the one that the API
// server wrote on the object.
func (r *Revocation) Entries() []revocation.Entry {
	var all []revocation.Entry
	for _, c := range r.Spec.Certificates {
		e := revocation.Entry{Certificate: c.Fingerprint, Key: c.Key, User: r.Spec.User, Reason: r.Spec.Reason, By: r.Spec.By,
			At: r.CreationTimestamp.Time}
		if c.NotAfter != nil {
			e.NotAfter = c.NotAfter.Time
		}
		all = append(all, e)
	}
	return all
}

// Add has the Revocation name one more certificate.
func (s *RevocationSpec) Add(e revocation.Entry) {
	c := RevokedCertificate{Fingerprint: e.Certificate, Key: e.Key}
	if !e.NotAfter.IsZero() {
		c.NotAfter = &metav1.Time{Time: e.NotAfter}
	}
	s.Certificates = append(s.Certificates, c)
}

// Until is when the last of its certificates ends, zero if that is not known of each.
func (r *Revocation) Until() (last time.Time) {
	for _, c := range r.Spec.Certificates {
		if c.NotAfter == nil {
			return time.Time{}
		}
		if c.NotAfter.After(last) {
			last = c.NotAfter.Time
		}
	}
	return last
}
