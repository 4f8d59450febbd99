package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// completes returns what is offered for the last of the words.
func (b *bench) completes(words ...string) []string {
	b.t.Helper()
	lines := strings.Split(strings.TrimSpace(b.ok(append([]string{"__completeNoDesc"}, words...)...)), "\n")
	return lines[:len(lines)-1] // the last is cobra's directive
}

func TestCompletion(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(b.home, "kubeconfig"), []byte(`apiVersion: v1
kind: Config
contexts:
- {name: prod, context: {cluster: c1, user: u}}
- {name: preview, context: {cluster: c2, user: u}}
- {name: "$(touch pwned)", context: {cluster: c1, user: u}}
- {name: "pre\u001b[31m;a b", context: {cluster: c1, user: u}}
clusters: [{name: c1, cluster: {server: "https://a.example"}}, {name: c2, cluster: {server: "https://b.example"}}]
users: [{name: u, user: {}}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.enrolled("payroll", "https://a.example", hsm.Slot{})
	uri := b.token.Info().URI().String()
	for line, want := range map[string][]string{
		"kubeconfig migrate ":          {"preview", "prod"},
		"kubeconfig migrate pro":       {"prod"},
		"kubeconfig migrate prod ":     nil,
		"csr list --context ":          {"preview", "prod"}, // the flag is global
		"enroll --context pre":         {"preview"},
		"enroll --cluster ":            {"c1", "c2"},
		"unlock ":                      {"payroll"},
		"certificate show ":            {"payroll"},
		"audit --enrollment p":         {"payroll"},
		"key generate --touch-policy ": {"never", "cached", "always", "default"},
		"key generate --algorithm e":   {"ecdsa-p256", "ecdsa-p384", "ed25519"},
		"doctor -o ":                   {"json", "yaml"},
		"consent set x --policy ":      {"session", "writes", "rules", "always"},
		"rbac print h":                 {"helpdesk"},
		"doct":                         {"doctor"},
	} {
		if got := b.completes(strings.Split(line, " ")...); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := b.completes("token", "info", "--token", ""); !slices.Contains(got, uri) {
		t.Errorf("tokens: %q, want %q among them", got, uri)
	}
	if got := b.completes("key", "show", "--key", ""); len(got) != 1 || !strings.HasPrefix(got[0], "pkcs11:") {
		t.Errorf("keys: %q", got)
	}
}

// asks fails the test if anybody is asked anything.
type asks struct {
	hsm.Prompter
	t *testing.T
}

func (a asks) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	a.t.Error("asked for a PIN")
	return nil, hsm.ErrNoTerminal
}

// Behind the tab key nobody is asked for anything, and what cannot be read is
// left out without a word.
func TestCompletionIsQuiet(t *testing.T) {
	b := newBench(t)
	b.ask = asks{t: t}
	b.fake.Add(hsmtest.FakeOptions{Label: "locked", PINNotSet: true})
	b.fake.SetProblems(hsm.Problem{Source: "vendor.so", Err: hsm.ErrModule})
	for _, broken := range []string{"kubeconfig", "config.yaml"} {
		if err := os.WriteFile(filepath.Join(b.home, broken), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"token info --token ", "enroll --context ", "unlock ", "key list --token ",
		"key show --key "} {
		_, out, errs := b.run(append([]string{"__completeNoDesc"}, strings.Split(line, " ")...)...)
		if strings.Contains(out+errs, "error") || !strings.Contains(out, ":4") {
			t.Errorf("%q: %q, %q", line, out, errs)
		}
	}
}
