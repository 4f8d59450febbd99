// Package externalsigner is the signer's side of the KEP "External TLS
// certificate authenticator": a Kubernetes client that has the KEP's auth
// provider asks kubehsm for its certificate and for each signature. Below it,
// package wire is the format of both, and provider the client's side.
//
// The configuration that arrives is that of a kubeconfig, which somebody else
// may have written. It says which key to use; the person at the token agrees by
// the PIN or a touch. It may also name a PKCS#11 library, which is code that
// would run in this process: only a known one is loaded, or one that the user
// has confirmed.
package externalsigner
