// Package judge says what becomes of a certificate request in a cluster where the
// approver runs: approved or denied by itself, or left to a person. It is pure: what
// it must know of the cluster it asks of [Cluster], and it changes nothing.
//
// It compares requests with tickets ([Asked.Mismatches]) for whoever decides on them
// by hand as well, so that the two never differ.
package judge
