package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/assets"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// lab is a real control plane with the approver's manifests in it, and the program,
// started as the Deployment says: its service account, its flags.
type lab struct {
	t       testing.TB
	c       *controlplane.Cluster
	maker   *vcard.CA
	program string
	config  string // the service account's kubeconfig
	args    []string
	env     []string
}

func newLab(t testing.TB, o controlplane.Options) *lab {
	t.Helper()
	l := &lab{t: t, c: controlplane.StartForTest(t, o), program: filepath.Join(t.TempDir(), "kubehsm-cluster")}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", l.program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, r := range assets.RBAC() {
		if r.Name != "breakglass" { // the approver leaves its requests alone
			l.apply(r.Manifest)
		}
	}
	l.apply(l.kubectl("kustomize", "manifests"))
	l.kubectl("wait", "--for=condition=Established", "crd", "--all")
	var err error
	if l.maker, err = vcard.NewCA("the maker"); err != nil {
		t.Fatal(err)
	}
	policy, err := os.ReadFile("manifests/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l.apply(string(policy))
	l.setPolicy(map[string]any{"attestation": map[string]any{
		"roots": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.maker.Certificate.Raw}))}})
	l.asDeployed()
	return l
}

// setPolicy changes the policy of the cluster.
func (l *lab) setPolicy(spec map[string]any) {
	l.t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		l.t.Fatal(err)
	}
	l.kubectl("-n", "kubehsm-system", "patch", "enrollmentpolicy", "default", "--type=merge", "-p", string(patch))
}

func (l *lab) kubectl(args ...string) string {
	l.t.Helper()
	out, err := l.c.Admin(l.t.Context(), "", args...)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

func (l *lab) apply(manifests string) {
	l.t.Helper()
	if err := l.c.Apply(l.t.Context(), manifests); err != nil {
		l.t.Fatal(err)
	}
}

// asDeployed reads what the program is started with from the manifests in the cluster.
func (l *lab) asDeployed() {
	l.t.Helper()
	var d appsv1.Deployment
	if err := yaml.Unmarshal([]byte(l.kubectl("-n", "kubehsm-system", "get", "deployment", "kubehsm-cluster", "-oyaml")), &d); err != nil {
		l.t.Fatal(err)
	}
	container := d.Spec.Template.Spec.Containers[0]
	l.args = container.Args
	for _, e := range container.Env {
		l.env = append(l.env, e.Name+"="+e.Value)
	}
	// A pod of it is what the namespace's pod security admits.
	pod, err := json.Marshal(corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: d.Namespace}, Spec: d.Spec.Template.Spec})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.c.Admin(l.t.Context(), string(pod), "create", "--dry-run=server", "-f", "-"); err != nil {
		l.t.Error(err)
	}
	token := l.kubectl("-n", "kubehsm-system", "create", "token", d.Spec.Template.Spec.ServiceAccountName, "--duration=2h")
	ca, err := os.ReadFile(l.c.CAFile())
	if err != nil {
		l.t.Fatal(err)
	}
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: l.c.Server(), CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &api.AuthInfo{Token: strings.TrimSpace(token)}
	config.Contexts["x"], config.CurrentContext = &api.Context{Cluster: "c", AuthInfo: "u"}, "x"
	l.config = filepath.Join(l.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, l.config); err != nil {
		l.t.Fatal(err)
	}
}

// replica is one process of the program.
type replica struct {
	cmd             *exec.Cmd
	metrics, probes string
	said            *bytes.Buffer
}

func (l *lab) start() *replica {
	l.t.Helper()
	r := &replica{metrics: freeAddress(l.t), probes: freeAddress(l.t), said: &bytes.Buffer{}}
	r.cmd = exec.Command(l.program, append(l.args, "--metrics-address="+r.metrics, "--probe-address="+r.probes, "--kubeconfig="+l.config)...)
	r.cmd.Stderr = r.said
	r.cmd.Env = append(os.Environ(), l.env...)
	if err := r.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		r.kill()
		if l.t.Failed() {
			all := strings.Split(r.said.String(), "\n")
			l.t.Logf("replica %d:\n%s", r.cmd.Process.Pid, strings.Join(all[max(0, len(all)-30):], "\n"))
		}
	})
	return r
}

// kill ends it without a word; it may have ended.
func (r *replica) kill() {
	if r.cmd.ProcessState == nil {
		_ = r.cmd.Process.Signal(syscall.SIGKILL)
		_ = r.cmd.Wait()
	}
}

func (r *replica) get(ctx context.Context, address, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func freeAddress(t testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
