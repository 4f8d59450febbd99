package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

// The user's onlyModules holds for the signer too: a kubeconfig must not reach
// tokens that it leaves out.
func TestSignerKeepsToOnlyModules(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(b.home, "config.yaml"), []byte("onlyModules: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.env["EXTERNAL_SIGNER_PLUGIN_CONFIG"] = `{"apiVersion":"external-signer.authentication.k8s.io/v1alpha1","kind":"CertificateRequest",` +
		`"configuration":{"pathExec":"/usr/bin/kubehsm","uri":"pkcs11:token=absent;id=%02"}}`
	var asked []DriverOptions
	var out, errs bytes.Buffer
	p := &Program{
		Args: []string{"/usr/bin/kubehsm"}, Stdout: &out, Stderr: &errs,
		Getenv: func(k string) string { return b.env[k] }, Setenv: func(string, string) error { return nil },
		Drivers: func(o DriverOptions) hsm.Drivers {
			asked = append(asked, o)
			return hsm.Drivers{keepOpen{b.fake}}
		},
		asker: prompt.None{},
	}
	if code := p.Run(t.Context()); code != 3 || out.Len() > 0 {
		t.Errorf("exit code %d, %q, %q", code, out.String(), errs.String())
	}
	if len(asked) == 0 {
		t.Fatalf("no drivers were asked for: %s", errs.String())
	}
	for _, o := range asked {
		if !o.OnlyModules {
			t.Errorf("drivers with all modules: %+v", o)
		}
	}
}
