// Package discovery finds out where a cluster is and whose certificates to
// trust for it, starting from something that a person was given: a bootstrap
// token, a discovery file, or an https URL. The rules are kubeadm's (`kubeadm
// join`), in places stricter.
//
//	info, err := discovery.Discover(ctx, discovery.Options{
//		Endpoint: "10.0.0.1:6443", Token: token, Pins: pins,
//	})
//
// # By token
//
// The ConfigMap cluster-info in kube-public is read anonymously and without
// verifying the server: no credential is sent, the token least of all. Its
// kubeconfig counts only if
//
//   - it is signed with the token (JWS, HS256, detached, with exactly the header
//     {"alg":"HS256","kid":ID}; the cluster signs soon after the token is made,
//     so the signature is waited for),
//   - its certificate authority has a pinned public key, or [Options.UnsafeSkipCAVerification]
//     says that everyone who knows the token is trusted to name one; of several
//     authorities only the pinned ones are kept, and
//   - the server, asked again with its certificate verified against just those
//     authorities, gives the same bytes.
//
// # By file, URL or stream
//
// A discovery file is a kubeconfig with one cluster and no credential. It is
// trusted as it was had: the file by its path, the URL by its server's
// certificate. No http, and no redirect to it.
//
// # Later
//
// [Refresh] asks a known cluster, over its verified chain, what has changed.
//
// Whatever comes from the network is bounded in size and time, and is
// untrusted: it is kept raw, for the terminal to clean.
package discovery
