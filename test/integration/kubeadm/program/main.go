// Command kubeadm is upstream's kubeadm, unmodified, for tests: what it writes
// is read by kubehsm, and the other way round. It is a module of its own, so
// that what is behind it stays out of the product's.
package main

import (
	"k8s.io/kubernetes/cmd/kubeadm/app"
	errorsutil "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
)

func main() { errorsutil.HandleError(app.Run()) }
