// Package clusterapi is the API that kubehsm-cluster, the cluster's half of
// kubehsm, serves by CustomResourceDefinitions: the roster of tokens, what people
// decide on requests, what they revoke, and the policy that binds all of them. The
// schemas with their rules are in plugin/kubehsm-cluster/manifests; a test compares
// them with these types.
//
// +kubebuilder:object:generate=true
// +groupName=kubehsm.github.io
package clusterapi
