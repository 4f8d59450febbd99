// Package revocation stops client certificates from writing in a Kubernetes cluster before
// they end. It turns a list of entries into ValidatingAdmissionPolicies that hold the entries
// as CEL literals, and reads the list back from those policies: they are the record.
//
//	l := revocation.Ledger{API: cluster}
//	e, err := revocation.EntryOf(certificate)
//	err = l.Revoke(ctx, time.Now(), e)
//	err = l.Lift(ctx, time.Now(), e.Certificate)
//
// The API server tells certificates apart by the user's extra field
// authentication.kubernetes.io/credential-id (Kubernetes 1.32 and later). Admission sees
// writes and connections (exec, attach, port-forward, proxy), and no reads.
//
// Literals, and not a ConfigMap as paramKind: with a parameter the policy stops to follow its
// ConfigMap when the last binding is deleted, and one that is empty locks everybody out under
// failurePolicy Fail.
//
// The package talks to no cluster itself. A controller and the command line give it an [API].
package revocation
