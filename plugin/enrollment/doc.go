// Package enrollment keeps what the user has enrolled: under a name, one API
// server, one key on one token, one identity, and the certificate that binds
// them. The agent serves nothing that is not in this store, whatever a
// kubeconfig says.
//
// state/enrollments/NAME.json holds an enrollment, state/certificates/KEYHASH/NAME.pem
// its certificate chain, leaf first. Nothing in them is secret, but who could
// change them could lead the user elsewhere: they are 0600 in 0700 folders, and the
// key of an enrollment signs where it leads and what needs consent there
// ([Enrollment.Version]).
package enrollment
