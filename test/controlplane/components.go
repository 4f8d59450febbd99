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
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Kubelet           Component = "kubelet"
)

var components = []Component{Etcd, APIServer, ControllerManager, Kubelet}

// program is the file that runs the component: an API server that was added has
// a name of its own.
func (c Component) program() string {
	if c.isAPIServer() {
		return string(APIServer)
	}
	return string(c)
}

func (c Component) isAPIServer() bool { return strings.HasPrefix(string(c), string(APIServer)) }

// kubeletClient is who the API server is to the kubelet.
const kubeletClient = "kube-apiserver-kubelet-client"

// controllers are the loops that certificates and bootstrap tokens need, the one that fills
// the roles view, edit and admin, and the one that counts for quotas.
const controllers = "csrsigning,csrapproving,csrcleaner,bootstrapsigner,tokencleaner,clusterrole-aggregation,resourcequota"

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
		return append(c.managerArguments(), c.state.Options.ControllerManagerFlags...)
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

func (c *Cluster) managerArguments() []string {
	args := []string{
		"--kubeconfig=" + c.managerKubeconfig(), "--leader-elect=false", "--use-service-account-credentials",
		"--controllers=" + controllers, "--resource-quota-sync-period=1s",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.state.Ports.Manager),
		"--tls-cert-file=" + c.pki.manager.cert, "--tls-private-key-file=" + c.pki.manager.key,
		"--cluster-signing-cert-file=" + c.pki.ca.file, "--cluster-signing-key-file=" + c.pki.ca.keyFile,
	}
	if c.state.Options.AllControllers {
		args = append(args, "--controllers=*", "--root-ca-file="+c.pki.ca.file,
			"--service-account-private-key-file="+c.pki.accountKey)
	}
	if d := c.state.Options.SigningDuration; d > 0 {
		args = append(args, "--cluster-signing-duration="+d.String())
	}
	return args
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
