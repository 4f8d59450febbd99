package shell_test

import (
	"os/exec"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// TestQuote has a shell read what was quoted.
func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"": "''", "prod": "prod", "piv:serial=1": "piv:serial=1", "a b": "'a b'", "it's": `'it'\''s'`, "$(id)": "'$(id)'",
		"pkcs11:token=a;id=%01": "'pkcs11:token=a;id=%01'", "é": "'é'", "/home/j@d/k+1,2": "/home/j@d/k+1,2", "*?~#!": "'*?~#!'", "a\nb": "'a\nb'",
	} {
		got := shell.Quote(in)
		if got != want {
			t.Errorf("%q is quoted as %s, want %s", in, got, want)
		}
		out, err := exec.Command("sh", "-c", "printf %s "+got).Output()
		if err != nil || string(out) != in {
			t.Errorf("the shell reads %s as %q (%v), want %q", got, out, err, in)
		}
	}
}
