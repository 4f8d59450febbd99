package caller

import (
	"strings"
	"testing"
)

// TestLongCommand: a word may be longer than what the agent reads in all.
func TestLongCommand(t *testing.T) {
	got := commandWords([]byte("sh\x00" + strings.Repeat("é", 60_000) + "\x00"))
	if !strings.HasPrefix(got, "sh é") || len(got) > maxCommand || !strings.HasSuffix(got, "é") {
		t.Errorf("%d bytes: %.40q", len(got), got)
	}
}

func TestCommandWords(t *testing.T) {
	for in, want := range map[string]string{
		"/usr/bin/kubectl\x00get\x00pods\x00-A\x00":                          "kubectl get pods",
		"kubectl\x00--token\x00geheim\x00get\x00pods\x00":                    "kubectl",
		"kubectl\x00get\x00--token=geheim\x00pods\x00":                       "kubectl get",
		"tofu\x00apply\x00-auto-approve\x00-var\x00db_password=geheim\x00":   "tofu apply",
		"helm\x00upgrade\x00--install\x00--set\x00password=geheim\x00db\x00": "helm upgrade",
		"make\x00apply\x00TOKEN=geheim\x00all\x00":                           "make apply",
		"-sh\x00deploy\x00": "-sh deploy",
		"kubectl\x00create\x00secret\x00generic\x00db\x00--from-literal\x00p=geheim\x00": "kubectl create secret generic",
		"kubectl\x00exec\x00-it\x00db\x00--\x00mysql\x00-pgeheim\x00":                    "kubectl exec",
		"k9s\x00": "k9s",
		"":        ".",
	} {
		if got := commandWords([]byte(in)); got != want {
			t.Errorf("commandWords(%q) = %q, want %q", in, got, want)
		}
	}
}
