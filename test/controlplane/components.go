package controlplane

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Component is one of a cluster's servers.
type Component string

// The servers, in the order of starting. The kubelet, a stub, is started by
// [Cluster.RunPod].
const (
	Etcd        Component = "etcd"
	APIServer   Component = "kube-apiserver"
	Controllers Component = "controllers"
	Kubelet     Component = "kubelet"
)

var components = []Component{Etcd, APIServer, Controllers, Kubelet}

// wholeManager is the program of [Controllers] with [Options.Whole].
const wholeManager = "kube-controller-manager"

// program is the file that runs the component: an API server that was added has
// a name of its own.
func (c *Cluster) program(component Component) string {
	switch {
	case strings.HasPrefix(string(component), string(APIServer)):
		return string(APIServer)
	case component == Controllers && c.state.Options.Whole:
		return wholeManager
	}
	return string(component)
}

// kubeletClient is who the API server is to the kubelet.
const kubeletClient = "kube-apiserver-kubelet-client"

func loopback(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }

// arguments returns component's command line.
func (c *Cluster) arguments(component Component) []string {
	if a, ok := c.state.Added[component]; ok {
		return withAuthorization(append(c.apiServerArguments(a.Port, a.NextCA), a.Flags...))
	}
	switch component {
	case Etcd:
		return c.etcdArguments()
	case APIServer:
		return withAuthorization(append(c.apiServerArguments(c.state.Ports.API, false), c.state.Options.APIServerFlags...))
	case Kubelet:
		return c.kubeletArguments()
	default:
		return append(c.controllersArguments(), c.state.Options.ControllersFlags...)
	}
}

func (c *Cluster) etcdArguments() []string {
	client, peer := loopback(c.state.Ports.Etcd), loopback(c.state.Ports.Peer)
	args := []string{
		"--name=kubehsm", "--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=kubehsm=" + peer,
		"--cert-file=" + c.pki.etcd.cert, "--key-file=" + c.pki.etcd.key,
		"--trusted-ca-file=" + c.pki.etcdCA.file, "--client-cert-auth",
		"--peer-cert-file=" + c.pki.etcd.cert, "--peer-key-file=" + c.pki.etcd.key,
		"--peer-trusted-ca-file=" + c.pki.etcdCA.file, "--peer-client-cert-auth",
	}
	if !c.state.Options.Detached { // nothing outlives a test, so nothing need survive a power cut
		args = append(args, "--unsafe-no-fsync")
	}
	return args
}

func (c *Cluster) apiServerArguments(port int, nextCA bool) []string {
	own := c.pki.apiServer
	if nextCA {
		own = c.pki.nextAPIServer
	}
	return []string{
		"--etcd-servers=" + loopback(c.state.Ports.Etcd), "--etcd-cafile=" + c.pki.etcdCA.file,
		"--etcd-certfile=" + c.pki.etcdClient.cert, "--etcd-keyfile=" + c.pki.etcdClient.key,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + own.cert, "--tls-private-key-file=" + own.key,
		"--client-ca-file=" + c.clientCAFile(), "--enable-bootstrap-token-auth",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki.accountPublicKey,
		"--service-account-signing-key-file=" + c.pki.accountKey,
		"--service-cluster-ip-range=10.96.0.0/24",
		"--kubelet-certificate-authority=" + c.pki.ca.file,
		"--kubelet-client-certificate=" + c.pki.kubeletClient.cert, "--kubelet-client-key=" + c.pki.kubeletClient.key,
	}
}

// withAuthorization adds RBAC to an API server's flags, unless they name a file with
// authorizers, which excludes it.
func withAuthorization(flags []string) []string {
	if slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--authorization-config=") }) {
		return flags
	}
	return append([]string{"--authorization-mode=RBAC"}, flags...)
}

func (c *Cluster) controllersArguments() []string {
	args := []string{
		"--tls-cert-file=" + c.pki.manager.cert, "--tls-private-key-file=" + c.pki.manager.key,
		"--cluster-signing-cert-file=" + c.pki.ca.file, "--cluster-signing-key-file=" + c.pki.ca.keyFile,
	}
	if !c.state.Options.Whole {
		return append(args, "--kubeconfig="+c.AdminKubeconfig(), fmt.Sprintf("--address=127.0.0.1:%d", c.state.Ports.Manager))
	}
	return append(args, "--kubeconfig="+c.managerKubeconfig(), "--leader-elect=false", "--use-service-account-credentials",
		"--controllers=*,bootstrapsigner,tokencleaner", "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.state.Ports.Manager), "--root-ca-file="+c.pki.ca.file,
		"--service-account-private-key-file="+c.pki.accountKey)
}

func (c *Cluster) kubeletArguments() []string {
	return []string{
		fmt.Sprintf("--address=127.0.0.1:%d", c.state.Ports.Kubelet), "--root=" + filepath.Join(c.dir, "pods"),
		"--tls-cert-file=" + c.pki.kubelet.cert, "--tls-private-key-file=" + c.pki.kubelet.key,
		"--client-ca-file=" + c.pki.ca.file, "--client-name=" + kubeletClient,
	}
}

func (c *Cluster) logFile(component Component) string {
	return filepath.Join(c.dir, "log", string(component)+".log")
}

// portTaken tells whether a server ended because its port was in use.
func portTaken(log string) bool { return strings.Contains(log, "address already in use") }
