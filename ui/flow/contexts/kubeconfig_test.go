package contexts

import (
	"encoding/base64"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestWritable: a kubeconfig that cannot be written is told of beforehand, as the change itself
// would.
func TestWritable(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	en := enrollment.Enrollment{Name: "prod-hsm", Cluster: cluster.Cluster{Server: "https://10.0.0.1:6443"}}
	for mode, want := range map[os.FileMode]error{0o600: nil, 0o400: kubeconfig.ErrReadOnly} {
		must.OK(t, os.Chmod(e.Kubeconfig, mode))
		change, err := New(e).PlanEntry(t.Context(), en, false, false)
		must.OK(t, err)
		if err := change.Writable(); !errors.Is(err, want) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// TestEntryForSilentClients: what clients hand to the plugin that send it no
// request of their own is a request for the version that the entry says.
func TestEntryForSilentClients(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	en := enrollment.Enrollment{Name: "prod-hsm", Cluster: cluster.Cluster{Server: "https://10.0.0.1:6443"}}
	entry, err := New(e).entry(en, false)
	must.OK(t, err)
	args := []string{"credential", "--enrollment", "prod-hsm", "--api-version", "v1beta1"}
	if x := entry.Exec; !slices.Equal(x.Args, args) || len(x.Env) != 2 || x.Env[0].Name != execcredential.EnvVar {
		t.Fatalf("%+v", x)
	}
	byArgs, err := execcredential.Assume(args[4])
	must.OK(t, err)
	byEnv, err := execcredential.Read(entry.Exec.Env[0].Value)
	if err != nil || !reflect.DeepEqual(byArgs, byEnv) || byEnv.APIVersion != entry.Exec.APIVersion {
		t.Errorf("by arguments %+v, by the environment %+v, %v", byArgs, byEnv, err)
	}
}

// TestEntryGolden: the cluster of an entry is these bytes in both kinds of entry:
// the bridge, with the enrollment and its server in the extension, or the API server
// itself.
func TestEntryGolden(t *testing.T) {
	at := cluster.Cluster{Server: "https://10.0.0.1:6443", TLSServerName: "kubernetes", InsecureSkipTLSVerify: true,
		Direct: true, DisableCompression: true}
	e, _ := enrolled(t, at)
	endpoint, err := e.Bridge()
	must.OK(t, err)
	bridge := `    certificate-authority-data: ` + base64.StdEncoding.EncodeToString(endpoint.CAPEM) + `
    disable-compression: true
    extensions:
    - extension:
        enrollment: prod-hsm
        server: https://10.0.0.1:6443
      name: client.authentication.k8s.io/exec
    server: ` + endpoint.URL("prod-hsm") + "\n"
	if text := read(t, e.Kubeconfig); !strings.Contains(text, "- cluster:\n"+bridge+"  name: prod-hsm\n") {
		t.Errorf("not in it:\n%s\nbut:\n%s", bridge, text)
	}
	change, err := New(e).SetSigner(t.Context(), "prod-hsm", false, true)
	if err == nil {
		err = change.Apply(t.Context())
	}
	must.OK(t, err)
	signer := `    disable-compression: true
    extensions:
    - extension:
        enrollment: prod-hsm
        server: https://10.0.0.1:6443
      name: client.authentication.k8s.io/exec
    insecure-skip-tls-verify: true
    server: https://10.0.0.1:6443
    tls-server-name: kubernetes
`
	if text := read(t, e.Kubeconfig); !strings.Contains(text, signer) {
		t.Errorf("not in it:\n%s\nbut:\n%s", signer, text)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must.OK(t, err)
	return string(b)
}
