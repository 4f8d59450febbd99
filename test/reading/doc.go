// Package reading holds our reading of requests (plugin/consent) to the API
// server's own: each request is given to both, and what they take it for must be
// the same, or ours must call it odd, so that no policy that asks serves it.
//
// [Compare] does so with the API server's parts one by one: RequestInfoFactory, the
// filter for impersonation, the decoders of options, the checks for changes of
// protocol. Package served sends requests over connections, through the bridge, to a
// generic API server with all its filters and handlers and the types of Kubernetes,
// whose storage only notes what it is told to do.
//
//	go test ./served -run TestRequests -cases 100000000 -timeout 0 -v
//	go test ./served -run TestServed -served 1000000 -timeout 0 -v
//	go test ./served -run TestBodies -bodies 1000000 -timeout 0 -v
//	go test -fuzz FuzzRequest
//
// The package is a module of its own: k8s.io/apiserver and k8s.io/kubernetes stay
// out of the product's. Its versions are those of test/cluster, so that both share
// what the build cache has.
package reading
