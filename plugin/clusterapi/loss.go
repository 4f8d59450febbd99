package clusterapi

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LossReport says that a token is lost. Its owner makes it, signed in with the key of another token. The approver
// makes the token [Lost] and files a [Revocation] of its certificates, or says in the status that the token is not
// the reporter's, and deletes the report after [ReportKept].
//
// Its name is the SHA-256 of the certificate that its maker signed in with, which admission compares. So nobody can
// take the name of somebody else's report, each certificate has one report at a time, and who impersonates the owner
// makes none: the API server does not tell the certificate then.
//
// +kubebuilder:object:root=true
type LossReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LossSpec   `json:"spec,omitempty"`
	Status LossStatus `json:"status,omitempty"`
}

// LossReportList is what a list answers.
//
// +kubebuilder:object:root=true
type LossReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []LossReport `json:"items"`
}

// LossSpec is never changed.
type LossSpec struct {
	// Token is the serial number.
	Token string `json:"token"`
	// By is the user name of who reports; admission compares it with who writes it.
	By string `json:"by"`
	// Note is what the revoked certificates' holder reads, and may be empty.
	Note string `json:"note,omitempty"`
}

// LossStatus is what became of a report.
type LossStatus struct {
	// Certificates is how many are revoked, Until when the last of them ends, which can read until then.
	Certificates int32        `json:"certificates,omitempty"`
	Until        *metav1.Time `json:"until,omitempty"`
	// Conditions has [InForce]: True if the token is lost and the API server refuses what its certificates write.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NotYours is the reason of [InForce] for a report of a token that the roster does not give to the reporter.
const NotYours = "NotYours"

// ReportKept is how long a report stays after it was answered. Its maker reads the answer, and makes no other report
// until then.
const ReportKept = 20 * time.Second
