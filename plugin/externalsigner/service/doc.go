// Package service is the signer's side of the external signer protocol in its
// gRPC form ([v1alpha1.ExternalSignerService]), on a unix socket that only its
// user reaches.
//
// Clients are served at the same time. The answer to each is made elsewhere
// ([Options]); what it says to the user on the way goes to the client as
// prompts, before the certificate or the signature.
//
// A request's cluster is what a client says of itself. Nothing is decided by it,
// and it is shown to nobody.
package service
