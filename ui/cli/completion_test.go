package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
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
		"kubeconfig migrate ":                       {"preview", "prod"},
		"kubeconfig migrate pro":                    {"prod"},
		"kubeconfig migrate prod ":                  nil,
		"csr list --context ":                       {"preview", "prod"}, // the flag is global
		"enroll --context pre":                      {"preview"},
		"enroll --cluster ":                         {"c1", "c2"},
		"unlock ":                                   {"payroll"},
		"certificate show ":                         {"payroll"},
		"audit --enrollment p":                      {"payroll"},
		"key generate --touch-policy ":              {"never", "cached", "always", "default"},
		"key generate --algorithm e":                {"ecdsa-p256", "ecdsa-p384", "ed25519"},
		"doctor -o ":                                {"json", "yaml"},
		"consent set x --policy ":                   {"session", "writes", "rules", "always"},
		"rbac print h":                              {"helpdesk"},
		"doct":                                      {"doctor"},
		"kubeconfig set --mode b":                   {"bridge"},
		"key generate --slot 9":                     {"9a", "9c", "9d", "9e", "90", "91", "92", "93", "94", "95"},
		"enroll --signer-name k":                    {"kubernetes.io/kube-apiserver-client"},
		"enroll --accept-risk f":                    {"forecast"},
		"helpdesk ticket --policy attested,touch-a": {"attested,touch-always"},
		"key delete --key k --accept-risk s":        {"serial:10000001"},
		"enroll --user ":                            nil,
		"join ":                                     nil,
		"version ":                                  nil,
		"csr show ":                                 nil,
		"unlock payroll ":                           nil,
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

// TestEveryValueIsCompleted: for whatever takes a value, shells offer values, a file because one is meant, or nothing because
// the text is free. Descriptions have no back quotes, which shells show.
func TestEveryValueIsCompleted(t *testing.T) {
	free := strings.Fields(
		"name user group list text words word lifetime duration number descriptor hash id serial selector " +
			"rule url uri address key=value process port token date",
	)
	a := &app{Program: &Program{Args: []string{"kubehsm"}, Getenv: func(string) string { return "" }}, pinFD: -1}
	root := a.root("")
	check := func(what, value string, list completing, files bool) {
		if list == nil && !files && !slices.Contains(free, strings.ToLower(value)) {
			t.Errorf("%s: nothing is known of a value called %q", what, value)
		}
	}
	for _, c := range everyCommand(root) {
		path := c.CommandPath()
		if strings.Contains(c.Short, "`") {
			t.Errorf("%s: back quotes in %q", path, c.Short)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			what := path + " --" + f.Name
			if strings.Contains(f.Usage, "`") {
				t.Errorf("%s: back quotes in %q", what, f.Usage)
			}
			value := annotated(f, flagValue)
			if (value == "") != (f.Value.Type() == "bool") {
				t.Errorf("%s: a %s with the value %q", what, f.Value.Type(), value)
			}
			if value == "" {
				return
			}
			list, files := a.flagValues(f)
			check(what, value, list, files)
			if _, registered := c.GetFlagCompletionFunc(f.Name); registered == files {
				t.Errorf("%s: shells complete it: %v", what, registered)
			}
		})
		if c.HasSubCommands() || !c.Runnable() {
			continue
		}
		if word, _ := argument(c); word != "" {
			list, files := a.values(word)
			check(path, word, list, files)
			if files != (c.ValidArgsFunction == nil) {
				t.Errorf("%s: shells complete its argument: %v", path, !files)
			}
		}
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
		must.OK(t, os.WriteFile(filepath.Join(b.home, broken), []byte("{"), 0o600))
	}
	for _, line := range []string{"token info --token ", "enroll --context ", "unlock ", "key list --token ",
		"key show --key "} {
		_, out, errs := b.run(append([]string{"__completeNoDesc"}, strings.Split(line, " ")...)...)
		if strings.Contains(out+errs, "error") || !strings.Contains(out, ":36") {
			t.Errorf("%q: %q, %q", line, out, errs)
		}
	}
}
