//go:build linux

package transparency

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// namedServer is a host that only a proxy can resolve, and that the API server's
// certificate names.
const namedServer = "kubernetes.default.svc"

// TestNetworks: the ways in which API servers are reached in the world. The
// enrollment takes each over from the context that it begins with.
func TestNetworks(t *testing.T) {
	t.Parallel()
	c := controlplane.StartForTest(t, controlplane.Options{})
	n := &networks{Cluster: c, t: t}
	n.must(c.Apply(t.Context(), groupRights))
	n.must(c.RunPod(t.Context(), "default", "p"))
	_, err := c.Admin(t.Context(), "", "create", "configmap", "read", "--from-literal=a=b")
	n.must(err)
	second, third := n.add(controlplane.AddedAPIServer{}), n.add(controlplane.AddedAPIServer{})

	t.Run("several API servers behind one name", func(t *testing.T) {
		b := controlplane.BalancerForTest(t, "127.0.0.1:0", c.Server(), second, third)
		s := n.stage(t, "several", b.URL(), "")
		s.session()
		s.Do("agent", "stop")
		s.Must(s.Unlock(t.Context()))
		for range 30 {
			s.wants(s.kubectl(s.bridge, "", "get", "configmap", "read", "-o", "name"), 0, "configmap/read")
		}
		st, err := s.Status(t.Context())
		s.Must(err)
		if st.Signatures > 3 || st.Dials > 3 {
			t.Errorf("%d signatures and %d dials for 30 commands", st.Signatures, st.Dials)
		}
		for range 3 { // an idle connection that the balancer forgets is nobody's concern
			b.Cut()
			s.wants(s.kubectl(s.bridge, "", "get", "configmap", "read", "-o", "name"), 0, "configmap/read")
		}
		s.Must(b.To(third))
		s.wants(s.kubectl(s.bridge, "", "get", "configmap", "read", "-o", "name"), 0, "configmap/read")
	})
	t.Run("IPv6", func(t *testing.T) {
		if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
			need.Missing(t, "this machine has no IPv6 loopback: "+err.Error())
		} else {
			l.Close()
		}
		s := n.stage(t, "ipv6", controlplane.BalancerForTest(t, "[::1]:0", c.Server()).URL(), "")
		s.session()
	})
	t.Run("tls-server-name", func(t *testing.T) {
		// Nothing in the certificate names 127.0.0.2.
		address := controlplane.BalancerForTest(t, "127.0.0.2:0", c.Server()).URL()
		s := n.stage(t, "name", address, "tls-server-name: "+namedServer)
		s.session()
		other := n.unenrolled(t, address, "")
		if err := other.Enroll(t.Context(), group); err == nil || !strings.Contains(err.Error(), "127.0.0.2") {
			t.Errorf("without it: %v", err)
		}
	})
	t.Run("insecure-skip-tls-verify", func(t *testing.T) {
		address := controlplane.BalancerForTest(t, "127.0.0.2:0", c.Server()).URL()
		const line = "insecure-skip-tls-verify: true"
		ca, err := os.ReadFile(c.CAFile())
		n.must(err)
		unknown := rewrite{"    certificate-authority-data: " + base64.StdEncoding.EncodeToString(ca) + "\n", ""}
		s := n.unenrolled(t, address, line)
		s.rewrite(s.Kubeconfig, unknown)
		risk := "unverified:" + strings.TrimPrefix(address, "https://")
		if err := s.Enroll(t.Context(), group); err == nil || !strings.Contains(err.Error(), "--accept-risk "+risk) {
			t.Errorf("unasked: %v", err)
		}
		s.enroll("--accept-risk", risk)
		s.prepare("insecure", n.serverAt(address, line), unknown)
		s.session()
	})
	t.Run("HTTP/1.1 only", func(t *testing.T) {
		s := n.stage(t, "http1", n.add(controlplane.AddedAPIServer{Flags: []string{"--disable-http2-serving"}}), "")
		s.session()
	})
	t.Run("proxy-url", func(t *testing.T) {
		p := newConnectProxy(t, c.Server())
		s := n.stage(t, "proxy", "https://"+namedServer+":6443", "proxy-url: "+p.url)
		s.session()
		if p.tunnels.Load() == 0 {
			t.Error("the proxy was not used")
		}
	})
	t.Run("HTTPS_PROXY", func(t *testing.T) {
		p := newConnectProxy(t, c.Server())
		s := n.stage(t, "environment", "https://"+namedServer+":6443", "", "HTTPS_PROXY="+p.url)
		s.session()
		before := p.tunnels.Load()
		// The agent that is started by a program without it goes the same way.
		s.Do("agent", "stop")
		s.Must(s.Unlock(t.Context()))
		without := s.bridge
		without.env = without.env[:1]
		s.wants(s.kubectl(without, "", "get", "configmap", "read", "-o", "name"), 0, "configmap/read")
		if p.tunnels.Load() == before {
			t.Error("the proxy was not used")
		}
	})
	t.Run("an intermediate authority", func(t *testing.T) {
		// Kubernetes's own signer has none; this one sends what it is certified by.
		s := n.unenrolled(t, c.Server(), "")
		s.Must(c.StopControllers(t.Context()))
		var signing sync.WaitGroup
		signing.Go(s.signByIntermediate)
		err := s.Enroll(t.Context(), group)
		signing.Wait()
		s.Must(errors.Join(err, c.StartControllers(t.Context())))
		s.prepare("intermediate")
		s.session()
	})
	t.Run("the cluster's authority is replaced", func(t *testing.T) {
		b := controlplane.BalancerForTest(t, "127.0.0.1:0", c.Server())
		s := n.stage(t, "authority", b.URL(), "")
		s.session()
		next := n.add(controlplane.AddedAPIServer{NextCA: true})
		s.Must(b.To(next))
		if res := s.kubectl(s.bridge, "", "get", "configmaps"); res.Code != 1 ||
			!strings.Contains(res.Stderr, "certificate") {
			t.Errorf("an authority that nobody trusts: %s", res)
		}
		// Kubernetes's own way: first all are told of both, then the servers change.
		s.Must(b.To(c.Server()))
		s.Must(c.PublishInfo(t.Context(), b.URL(), c.NextCAFile()))
		_, err := lab.Succeeded(s.KubehsmPIN(t.Context(), lab.PIN, "kubeconfig", "refresh", lab.Enrolled, "--yes"))
		s.Must(err)
		old, err := os.ReadFile(c.CAFile())
		s.Must(err)
		added, err := os.ReadFile(c.NextCAFile())
		s.Must(err)
		s.rewrite(s.direct.kubeconfig, rewrite{base64.StdEncoding.EncodeToString(old),
			base64.StdEncoding.EncodeToString(slices.Concat(old, added))})
		s.session()
		s.Must(b.To(next))
		s.session()
	})
}

// networks is a cluster that is reached in many ways.
type networks struct {
	*controlplane.Cluster
	t *testing.T
}

func (n *networks) must(err error) {
	n.t.Helper()
	must.OK(n.t, err)
}

func (n *networks) add(a controlplane.AddedAPIServer) string {
	n.t.Helper()
	url, err := n.AddAPIServer(n.t.Context(), a)
	n.must(err)
	return url
}

// unenrolled is somebody whose context names the server by url, with another
// line in it.
func (n *networks) unenrolled(t *testing.T, url, line string) *stage {
	t.Helper()
	s := &stage{Person: lab.ForTest(t, lab.Options{Cluster: n.Cluster})}
	s.rewrite(s.Kubeconfig, n.serverAt(url, line))
	return s
}

func (n *networks) serverAt(url, line string) rewrite {
	return rewrite{"server: " + n.Server() + "\n", "server: " + url + "\n    " + line + "\n"}
}

// stage is somebody who enrolled from there, with env in the environment.
func (n *networks) stage(t *testing.T, name, url, line string, env ...string) *stage {
	t.Helper()
	s := n.unenrolled(t, url, line)
	s.env = env
	s.enroll()
	s.prepare(name, n.serverAt(url, line))
	return s
}

// enroll is [lab.Lab.Enroll] with the stage's environment, and with flags.
func (s *stage) enroll(flags ...string) {
	s.T.Helper()
	args := append([]string{"enroll", "--user", lab.User, "--group", group, "--approve-with", s.Cluster.AdminKubeconfig(),
		"--yes", "--pin-fd", "3"}, flags...)
	_, err := lab.Succeeded(s.Run(s.T.Context(), lab.Run{PIN: lab.PIN, Env: s.env}, s.Binary, args...))
	s.Must(err)
}

// session is some of everything: both ways must do the same.
func (s *stage) session() {
	s.T.Helper()
	s.wants(s.alike("", "get", "configmap", "read", "-o", "yaml"), 0, "a: b")
	much := strings.Repeat("all of it\n", 1<<16)
	s.wants(s.alike("{apiVersion: v1, kind: ConfigMap, metadata: {name: large}, data: {a: \""+strings.Repeat("x", 600_000)+
		"\"}}",
		"-n", "NAMESPACE", "create", "-f", "-"), 0, "configmap/large created")
	if res := s.alike("", "-n", "NAMESPACE", "get", "configmaps", "-o", "json"); len(res.Stdout) < 600_000 {
		s.T.Errorf("a list of %d bytes", len(res.Stdout))
	}
	s.wants(s.alike("", "-n", "NAMESPACE", "delete", "configmap", "large"), 0, "deleted")
	s.wants(s.alike("", "get", "configmap", "none"), 1, "NotFound")
	for _, env := range protocols {
		s := s.over(env)
		if res := s.alike(much, "exec", "-i", "p", "--", "cat"); res.Stdout != much {
			s.T.Errorf("%d bytes came back of %d: %s", len(res.Stdout), len(much), res.Stderr)
		}
	}
	for _, w := range s.ways() {
		terminal := s.Terminal(w.env, s.Cluster.Kubectl(), "-n", w.namespace, "get", "configmaps", "--watch", "-o", "name")
		s.Admin("-n", w.namespace, "create", "configmap", "watched")
		terminal.WaitFor("configmap/watched")
		terminal.Press(term.CtrlC)
		terminal.Exit()
		s.Admin("-n", w.namespace, "delete", "configmap", "watched")
	}
}

// signByIntermediate signs the first request of the cluster that is approved and
// has no certificate, by an authority that the cluster's own certified.
func (s *stage) signByIntermediate() {
	var name string
	if !poll.Within(poll.Patience, func() bool {
		out, err := s.Cluster.Admin(s.T.Context(), "", "get", "csr", "-o",
			`go-template={{range .items}}{{if and .status.conditions (not .status.certificate)}}{{.metadata.name}} {{end}}{{end}}`)
		name, _, _ = strings.Cut(out, " ")
		return err == nil && name != ""
	}) {
		s.T.Error("nothing to sign")
		return
	}
	if err := s.signOne(name); err != nil {
		s.T.Error(err)
	}
}

func (s *stage) signOne(name string) error {
	ca, err := tls.LoadX509KeyPair(s.Cluster.CAFile(), strings.TrimSuffix(s.Cluster.CAFile(), ".crt")+".key")
	if err != nil {
		return err
	}
	out, err := s.Cluster.Admin(s.T.Context(), "", "get", "csr", name, "-o", "jsonpath={.spec.request}")
	if err != nil {
		return err
	}
	request, err := base64.StdEncoding.DecodeString(out)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(request)
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	middle := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "intermediate"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	middleDER, err := x509.CreateCertificate(rand.Reader, middle, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: req.Subject, NotBefore: now.Add(-time.Minute),
		NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, middle, req.PublicKey, key)
	if err != nil {
		return err
	}
	var chain []byte
	for _, der := range [][]byte{leafDER, middleDER} {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	_, err = s.Cluster.Admin(s.T.Context(), "", "patch", "csr", name, "--subresource=status", "--type=merge", "-p",
		`{"status":{"certificate":"`+base64.StdEncoding.EncodeToString(chain)+`"}}`)
	return err
}

// connectProxy is a proxy that knows [namedServer].
type connectProxy struct {
	url     string
	tunnels atomic.Int64
}

func newConnectProxy(t *testing.T, server string) *connectProxy {
	p := &connectProxy{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != namedServer+":6443" {
			http.Error(w, "not through here", http.StatusForbidden)
			return
		}
		up, err := net.Dial("tcp", strings.TrimPrefix(server, "https://"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer up.Close()
		w.WriteHeader(http.StatusOK)
		down, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer down.Close()
		p.tunnels.Add(1)
		go func() {
			_, _ = io.Copy(up, buffered) // the other direction reports the end
			up.Close()
		}()
		_, _ = io.Copy(down, up)
	}))
	t.Cleanup(s.CloseClientConnections)
	p.url = s.URL
	return p
}
