package fleet

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/assets"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// sources returns the folder of the approver in this checkout.
func sources() (string, error) {
	root, err := controlplane.Checkout()
	return filepath.Join(root, "plugin", "kubehsm-cluster"), err
}

// Approver is the approver's program, and how the Deployment in the cluster starts it.
type Approver struct {
	program, kubeconfig string
	args, env           []string
}

// BuildApprover builds the approver's program at path.
func BuildApprover(ctx context.Context, path string) error {
	dir, err := sources()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", path, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the approver: %w\n%s", err, out)
	}
	return nil
}

// Install gives c the help desk's roles and the approver's manifests, with its policy, whose maker of
// tokens is the given one. It returns how to start program there; what this needs is written into dir.
func Install(ctx context.Context, c *controlplane.Cluster, maker *vcard.CA, program, dir string) (*Approver, error) {
	for _, r := range assets.RBAC() {
		if r.Name == "breakglass" { // the approver leaves its requests alone
			continue
		}
		if err := c.Apply(ctx, r.Manifest); err != nil {
			return nil, err
		}
	}
	at, err := sources()
	if err != nil {
		return nil, err
	}
	manifests, err := c.Admin(ctx, "", "kustomize", filepath.Join(at, "manifests"))
	if err != nil {
		return nil, err
	}
	if err := c.Apply(ctx, manifests); err != nil {
		return nil, err
	}
	if _, err := c.Admin(ctx, "", "wait", "--for=condition=Established", "crd", "--all"); err != nil {
		return nil, err
	}
	policy, err := os.ReadFile(filepath.Join(at, "manifests", "policy.yaml"))
	if err != nil {
		return nil, err
	}
	if err := c.Apply(ctx, string(policy)); err != nil {
		return nil, err
	}
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: maker.Certificate.Raw})
	if err := SetPolicy(ctx, c, map[string]any{"attestation": map[string]any{"roots": string(roots)},
		"deskUsers": []string{"*"}, "deskGroups": []string{"dev", "ops", "team-*"}}); err != nil {
		return nil, err
	}
	return deployed(ctx, c, program, dir)
}

// SetPolicy changes fields of the approver's policy.
func SetPolicy(ctx context.Context, c *controlplane.Cluster, spec map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = c.Admin(ctx, "", "-n", clusterapi.Namespace, "patch", "enrollmentpolicy", clusterapi.PolicyName,
		"--type=merge", "-p", string(patch))
	return err
}

// deployed reads the Deployment from the cluster and checks that the namespace admits its pods.
func deployed(ctx context.Context, c *controlplane.Cluster, program, dir string) (*Approver, error) {
	text, err := c.Admin(ctx, "", "-n", clusterapi.Namespace, "get", "deployment", "kubehsm-cluster", "-oyaml")
	if err != nil {
		return nil, err
	}
	var d appsv1.Deployment
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		return nil, err
	}
	container := d.Spec.Template.Spec.Containers[0]
	a := &Approver{program: program, kubeconfig: filepath.Join(dir, "approver.kubeconfig"), args: container.Args}
	for _, e := range container.Env {
		a.env = append(a.env, e.Name+"="+e.Value)
	}
	pod, err := json.Marshal(corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: d.Namespace}, Spec: d.Spec.Template.Spec})
	if err != nil {
		return nil, err
	}
	if _, err := c.Admin(ctx, string(pod), "create", "--dry-run=server", "-f", "-"); err != nil {
		return nil, err
	}
	token, err := c.Admin(ctx, "", "-n", clusterapi.Namespace, "create", "token", d.Spec.Template.Spec.ServiceAccountName,
		"--duration=2h")
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(c.CAFile())
	if err != nil {
		return nil, err
	}
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: c.Server(), CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &api.AuthInfo{Token: strings.TrimSpace(token)}
	config.Contexts["x"], config.CurrentContext = &api.Context{Cluster: "c", AuthInfo: "u"}, "x"
	return a, clientcmd.WriteToFile(*config, a.kubeconfig)
}

// Command is one replica, with the service account and flags of the Deployment, that serves metrics and
// probes at these addresses, host:port.
func (a *Approver) Command(metrics, probes string) *exec.Cmd {
	args := append(append([]string{}, a.args...), "--metrics-address="+metrics, "--probe-address="+probes,
		"--kubeconfig="+a.kubeconfig)
	cmd := exec.Command(a.program, args...)
	cmd.Env = append(os.Environ(), a.env...)
	return cmd
}
