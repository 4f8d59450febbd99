// Package provider is the client's side of the KEP "External TLS certificate
// authenticator": a client-go auth provider that has an external signer, a
// program, hand out the client certificate and make each signature. It is for
// people who build their own kubectl, controller or other client:
//
//	import _ "github.com/kubehsm/kubehsm/plugin/externalsigner/provider/auto"
//
// or, with a say in errors and streams,
//
//	err := provider.Register(provider.Options{})
//
// before the first client is made. A kubeconfig user then is
//
//	auth-provider:
//	  name: externalSigner
//	  config:
//	    pathExec: /usr/local/bin/kubehsm
//	    uri: pkcs11:token=work;id=%02
//
// pathExec is absolute, or a bare name to be found on PATH. All of config goes to the
// signer as it is.
//
// # How it gets at TLS
//
// An auth provider is handed a round tripper and nothing else. client-go shares
// transports between all clients of a process whose TLS options are equal, and
// an auth provider is none of those options: a certificate put there would
// sign in other users' requests as well. So requests are steered to a
// transport of our own, a copy of the shared one with a connection pool to
// itself, by a URL scheme that is registered with the shared one; whatever is
// wrapped around that (kubectl's headers, its discovery cache) stays in force.
// SPDY and WebSocket round trippers, which exec, attach, cp and port-forward
// use, have TLS options of their own, and get the certificate there.
//
// # Signatures
//
// One signer runs at a time, whatever asks for it, and TLS sessions are
// resumed within the process, so that a command with several connections needs
// one signature. A signature is part of a TLS handshake, for which client-go
// gives 10 s and the API server 32 s: a signer that takes longer, as its user
// does not answer, is ended. After a failure none is started for a few
// seconds: clients retry, and would ask the user again and again.
package provider
