// Package nodes has the module that kwok is built in:
//
//	go build sigs.k8s.io/kwok/cmd/kwok
//
// It is a module of its own, as kwok is made for another version of Kubernetes than
// the control plane's.
package nodes

import _ "sigs.k8s.io/kwok/pkg/kwok/cmd" // for go.mod to name what it needs
