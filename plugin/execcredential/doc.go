// Package execcredential is the wire format between client-go and an exec
// credential plugin (KEP-541): the request that kubectl puts into the
// environment of `kubehsm credential`, and the answer that goes to its
// standard output.
//
// The structs are the package's own: a request is decoded more strictly than by
// client-go's codec. The tests compare both directions with it.
//
// The request names a cluster, but it comes from a kubeconfig that somebody
// else may have written: nothing in it is to be trusted or printed as it is.
package execcredential

// Program is the name of the program that kubeconfig entries name, see plugin/kubehsm-credential.
const Program = "kubehsm-credential"
