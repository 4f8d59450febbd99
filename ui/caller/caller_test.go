package caller

import "testing"

func TestCommandWords(t *testing.T) {
	for in, want := range map[string]string{
		"/usr/bin/kubectl\x00get\x00pods\x00-A\x00":                                      "kubectl get pods",
		"kubectl\x00--token\x00geheim\x00get\x00pods\x00":                                "kubectl get pods",
		"kubectl\x00--token=geheim\x00get\x00pods\x00":                                   "kubectl get pods",
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
