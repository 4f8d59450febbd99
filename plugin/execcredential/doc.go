// Package execcredential is the wire format between client-go and an exec
// credential plugin (KEP-541): the request that kubectl puts into the
// environment of `kubehsm credential`, and the answer that goes to its
// standard output.
//
// The structs are the package's own. client-go's clientauthentication package
// needs a scheme and a codec factory, which cost more at start-up than the
// whole exchange; the tests compare both directions with client-go's codec.
//
// The request names a cluster, but it comes from a kubeconfig that somebody
// else may have written: nothing in it is to be trusted or printed as it is.
package execcredential
