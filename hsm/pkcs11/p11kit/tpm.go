package p11kit

import (
	"os"
	"path/filepath"
	"strings"
)

// IsTPM recognizes tpm2-pkcs11, which distributions configure for every
// program: without a TPM it makes a folder in the user's home, writes to
// standard error and fails. real is the module's identity.
func IsTPM(real string) bool {
	stem, _, _ := strings.Cut(filepath.Base(real), ".")
	return stem == "libtpm2_pkcs11"
}

// hasTPM tells whether this user can reach a TPM: by the kernel's resource
// manager at device, or where the environment says.
func hasTPM(device string) bool {
	if os.Getenv("TPM2_PKCS11_TCTI") != "" || os.Getenv("TPM2_PKCS11_STORE") != "" {
		return true
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}
