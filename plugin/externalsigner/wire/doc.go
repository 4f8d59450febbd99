// Package wire is the format of the exec form of the KEP "External TLS
// certificate authenticator": the request that a Kubernetes client puts into
// the environment of an external signer, and the answer that the signer writes
// to its standard output. Both ends of the protocol use it.
//
// The KEP and the prototype that came with it differ in the kinds; a signer
// answers in the [Dialect] that asked. The KEP leaves the name of the variable
// open: [Read] takes the names that clients have used, and the very first
// form, an argument.
//
// A request comes out of a kubeconfig that somebody else may have written.
// Reading it is strict: what could be understood in two ways is refused.
package wire
