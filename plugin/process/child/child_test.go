package child

import (
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/execcredential"
)

// TestEnviron: a child inherits no request of this process, in which there may be a PIN.
func TestEnviron(t *testing.T) {
	for _, name := range []string{execcredential.EnvVar, EnvReady, "EXTERNAL_SIGNER_PLUGIN_CONFIG", "SOME_OTHER"} {
		t.Setenv(name, "x")
	}
	t.Setenv("KEPT", "x")
	env := Environ("SOME_OTHER")
	for _, name := range []string{execcredential.EnvVar, EnvReady, "EXTERNAL_SIGNER_PLUGIN_CONFIG", "SOME_OTHER"} {
		if slices.Contains(env, name+"=x") {
			t.Errorf("%s is passed on", name)
		}
	}
	if !slices.Contains(env, "KEPT=x") {
		t.Error("the environment is not passed on")
	}
}
