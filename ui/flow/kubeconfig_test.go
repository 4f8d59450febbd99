package flow

import (
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// TestDisableCompression: what the enrolled context says about compression is in
// both kinds of entry. The bridge adds none of its own.
func TestDisableCompression(t *testing.T) {
	e, _ := testEnv(t, "blue")
	for _, disable := range []bool{false, true} {
		if disable {
			text := strings.Replace(testKubeconfig, `cluster: {server: "https://10.0.0.1:6443"`,
				`cluster: {disable-compression: true, server: "https://10.0.0.1:6443"`, 1)
			if err := os.WriteFile(e.Kubeconfig, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		j := &Journal{}
		if err := e.cluster(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		en := enrollment.Enrollment{Name: "prod-hsm", Cluster: j.Cluster}
		entry, err := e.entry(en, false)
		if err != nil {
			t.Fatal(err)
		}
		if signer := e.signerEntry(en, false); entry.DisableCompression != disable || signer.DisableCompression != disable {
			t.Errorf("the context says %v, the entry %v, the signer's entry %v",
				disable, entry.DisableCompression, signer.DisableCompression)
		}
	}
}
