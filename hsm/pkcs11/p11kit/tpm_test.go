//go:build !windows

package p11kit

import (
	"path/filepath"
	"testing"
)

// TestDiscoverTPM: the module of TPMs is found where there is a TPM to reach.
func TestDiscoverTPM(t *testing.T) {
	t.Setenv("TPM2_PKCS11_TCTI", "")
	t.Setenv("TPM2_PKCS11_STORE", "")
	root := tree(t, map[string]string{
		"lib/a.so": "", "lib/libtpm2_pkcs11.so.1.9.0": "", "lib/libtpm2_pkcs11.so": "-> lib/libtpm2_pkcs11.so.1.9.0",
		"share/one.module": "module: a.so", "share/tpm2_pkcs11.module": "module: libtpm2_pkcs11.so", "tpmrm0": "",
	})
	names := func(device string) (all []string) {
		p := placesIn(root)
		p.tpm = filepath.Join(root, device)
		found, problems := p.Discover()
		if len(problems) > 0 {
			t.Error(problems)
		}
		for _, m := range found {
			all = append(all, m.Name)
		}
		return all
	}
	if got := names("none"); len(got) != 1 || got[0] != "one" {
		t.Errorf("without a TPM: %v", got)
	}
	if got := names("tpmrm0"); len(got) != 2 {
		t.Errorf("with a TPM: %v", got)
	}
	t.Setenv("TPM2_PKCS11_TCTI", "swtpm:port=1")
	if got := names("none"); len(got) != 2 {
		t.Errorf("with a TPM elsewhere: %v", got)
	}
}
