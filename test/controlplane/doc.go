// Package controlplane builds and runs a real Kubernetes control plane on
// loopback, for tests and for the trial: etcd, kube-apiserver,
// kube-controller-manager (the certificate and bootstrap-token controllers)
// and kubectl, from the module in test/cluster.
//
// [Build] compiles it once into .cache/cluster of the checkout. [Start] runs a
// cluster in a folder of its own, on free ports, with its own certificate
// authorities; nothing is read or written elsewhere. [Cluster.Stop] ends every
// process it started. In the usual mode the processes also die with the one
// that started them; in detached mode they live on, and [Runs] and [StopDir]
// find them again by the folder.
//
// Tests call [ForTest] for one cluster shared by the package's tests (with
// [Main] in TestMain), or [StartForTest] for one of their own.
//
// It runs on Linux only.
package controlplane
