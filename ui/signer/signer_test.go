package signer

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

// The user's onlyModules holds for the signer too: a kubeconfig must not reach
// tokens that it leaves out.
func TestKeepsToOnlyModules(t *testing.T) {
	folder := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(folder, "config.yaml"), []byte("onlyModules: true\n"), 0o600))
	env := map[string]string{
		"KUBEHSM_HOME": folder,
		"EXTERNAL_SIGNER_PLUGIN_CONFIG": `{"apiVersion":"external-signer.authentication.k8s.io/v1alpha1","kind":"CertificateRequest",` +
			`"configuration":{"pathExec":"/usr/bin/kubehsm","uri":"pkcs11:token=absent;id=%02"}}`,
	}
	asked, kept := 0, true
	var out, errs bytes.Buffer
	s := Signer{
		Getenv: func(k string) string { return env[k] }, Setenv: func(string, string) error { return nil },
		Stdout: &out, Stderr: &errs, Prompter: prompt.None(),
		Drivers: func(_ home.Dirs, _ []settings.Module, only bool) hsm.Drivers {
			asked, kept = asked+1, kept && only
			return nil
		},
	}
	if err := s.Run(t.Context(), nil); !errors.Is(err, hsm.ErrUnavailable) || out.Len() > 0 {
		t.Errorf("%v, %q, %q", err, out.String(), errs.String())
	}
	if asked == 0 || !kept {
		t.Errorf("asked for drivers %d times, with all modules at least once: %t", asked, !kept)
	}
}
