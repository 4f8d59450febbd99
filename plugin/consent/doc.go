// Package consent knows what a request to an API server does ([Parse]) and
// which requests a person must agree to first ([Policy]).
//
// A request is read by the rules of the API server's own parser
// (RequestInfoFactory of k8s.io/apiserver/pkg/endpoints/request, v0.37): the
// package itself cannot be linked, as kubectl starts this program for every
// command and it would set up half of apimachinery each time. What those rules
// leave open is decided against the request: a path that two programs may read
// in two ways, a method that is none, a header that asks a server to take the
// request for another one. Such a request is Odd, and is served by no policy
// but session, which looks at nothing.
//
// A [Statement] is what a person agreed to. Where the key needs a touch for
// every use, the token signs it.
package consent
