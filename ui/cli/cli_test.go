package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

const testPIN = "271828"

// bench is one user's machine: a home, a fake token, nobody to ask.
type bench struct {
	t     *testing.T
	home  string
	env   map[string]string
	fake  *hsmtest.Fake
	token *hsmtest.FakeToken
	ask   hsm.Prompter
	stdin string
	name  string
	tui   func(context.Context, TUIOptions) (*enrolling.Result, error)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	home := t.TempDir()
	must.OK(t, os.Chmod(home, 0o700))
	b := &bench{
		t: t, home: home, fake: hsmtest.NewFake(hsm.SchemePKCS11), ask: prompt.None(), name: "kubehsm",
		env: map[string]string{"KUBEHSM_HOME": home, "HOME": home},
		tui: func(context.Context, TUIOptions) (*enrolling.Result, error) { return nil, hsm.ErrNoTerminal },
	}
	b.token = b.fake.Add(hsmtest.FakeOptions{Label: "trial", PIN: testPIN})
	t.Setenv("KUBECONFIG", filepath.Join(home, "kubeconfig"))
	t.Setenv("HOME", home)
	return b
}

// keepOpen lets several runs share a driver.
type keepOpen struct{ hsm.Driver }

func (keepOpen) Close() error { return nil }

// run runs the program and returns its exit code and what it wrote.
func (b *bench) run(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	return b.runWith(b.t.Context(), args...)
}

// runWith is run until ctx ends.
func (b *bench) runWith(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var out, errs bytes.Buffer
	p := &Program{
		Args: append([]string{"/usr/bin/" + b.name}, args...), Stdin: strings.NewReader(b.stdin), Stdout: &out, Stderr: &errs,
		Getenv: func(k string) string { return b.env[k] }, Setenv: func(string, string) error { return nil },
		Executable: "/usr/bin/kubehsm", Version: "v0.0.0-test",
		Drivers: func(DriverOptions) hsm.Drivers { return hsm.Drivers{keepOpen{b.fake}} },
		TUI:     b.tui, asker: b.ask,
	}
	code = p.Run(ctx)
	for what, s := range map[string]string{"stdout": out.String(), "stderr": errs.String()} {
		if strings.Contains(s, testPIN) {
			b.t.Errorf("%v wrote the PIN to %s: %q", args, what, s)
		}
		if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\n' }); i >= 0 {
			b.t.Errorf("%v wrote a control character to %s: %q", args, what, s)
		}
	}
	return code, out.String(), errs.String()
}

// ok runs the program and fails unless it succeeds.
func (b *bench) ok(args ...string) string {
	b.t.Helper()
	code, out, errs := b.run(args...)
	if code != 0 {
		b.t.Fatalf("%v: exit code %d: %s", args, code, errs)
	}
	return out
}

// fails runs the program and fails unless it ends with the code and the words.
func (b *bench) fails(code int, words string, args ...string) {
	b.t.Helper()
	got, out, errs := b.run(args...)
	if got != code || !strings.Contains(errs, words) {
		b.t.Errorf("%v: exit code %d, want %d; stderr %q, want %q in it", args, got, code, errs, words)
	}
	if out != "" {
		b.t.Errorf("%v failed and wrote to stdout: %q", args, out)
	}
}

// document decodes JSON.
func document(t *testing.T, s string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(s), &doc); err != nil {
		t.Fatalf("not a JSON document: %v: %q", err, s)
	}
	return doc
}

func TestUsageErrors(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		args  string
		words string
	}{
		{"foo", "error: unknown command \"foo\" for \"kubehsm\"\nhint: run `kubehsm --help`"},
		{"token lst", "hint: did you mean `kubehsm token list`?"},
		{"token list extra", "error: unexpected argument \"extra\""},
		{"token list --bad", "hint: run `kubehsm token list --help`"},
		{"token list -o xml", "use one of json, yaml"},
		{"key generate --algorithm dsa", "use one of ecdsa-p256"},
		{"key generate --touch-policy x", "unknown touch policy"},
		{"key generate --token nonsense", "malformed token URI"},
		{"csr create --user jane", "--key is missing"},
		{"csr create --user jane --key pkcs11:token=trial", "names a token, not a key"},
		{"csr show", "the name of the request is missing"},
		{"csr approve a b", "one name too many"},
		{"certificate import x.pem", "--enrollment is missing"},
		{"certificate show x --file y", "not both"},
		{"certificate show --file /nonexistent", "no such file"},
		{"enroll --tui --dry-run", "exclude each other"},
		{"token list --request-timeout soon", "neither a duration"},
		{"credential --bad", "kubehsm credential --help"},
		{"credential extra", "kubehsm credential --help"},
		{"unlock a --enrollment b", "two enrollments"},
	} {
		b.fails(2, c.words, strings.Fields(c.args)...)
	}
}

func TestNoArguments(t *testing.T) {
	b := newBench(t)
	if out := b.ok(); !strings.Contains(out, "Usage:") {
		t.Errorf("without a terminal the help is missing: %q", out)
	}
	opened := false
	b.tui = func(_ context.Context, o TUIOptions) (*enrolling.Result, error) {
		opened = o.Env != nil && o.Enroll // the enrollment opens, as nothing is enrolled
		return nil, nil
	}
	if out := b.ok(); !opened || out != "" {
		t.Errorf("the terminal UI was not opened: %q", out)
	}
	b.tui = func(context.Context, TUIOptions) (*enrolling.Result, error) { return nil, context.Canceled }
	b.fails(130, "cancelled")
}

func TestEnrollInTheTerminalUI(t *testing.T) {
	b := newBench(t)
	b.fails(5, "no terminal to ask on", "enroll", "--tui")
	var got TUIOptions
	b.tui = func(_ context.Context, o TUIOptions) (*enrolling.Result, error) { got = o; return nil, nil }
	b.ok("enroll", "--tui", "--name", "x", "--context", "c", "--user", "jane", "--group", "a,b", "--group", "c",
		"--token", "pkcs11:token=trial", "--approve-with", "/a", "--algorithm", "P384", "--kubeconfig", "/k")
	o := got.Options
	if !got.Enroll || got.Env.Kubeconfig != "/k" || o.Name != "x" || o.Context != "c" ||
		o.User != "jane" ||
		fmt.Sprint(o.Groups) != "[a,b c]" || o.Token.Token != "trial" || o.ApproveWith != "/a" ||
		o.Generate.Algorithm != hsm.ECDSAP384 {
		t.Errorf("the wizard got %+v", got)
	}
}

func TestCalledAsPlugin(t *testing.T) {
	b := newBench(t)
	b.name = "kubectl-hsm"
	out := b.ok("key", "--help")
	if !strings.Contains(out, "kubectl hsm key [command]") || strings.Contains(out, "  kubehsm") {
		t.Errorf("the help does not say kubectl hsm:\n%s", out)
	}
	b.fails(2, "run `kubectl hsm key list --help`", "key", "list", "--bad")
	b.fails(2, "run `kubectl hsm credential --help`", "credential", "--bad")
}

// TestCommands holds every command to the house's form.
func TestCommands(t *testing.T) {
	b := newBench(t)
	a := &app{Program: &Program{Args: []string{"kubehsm"}}}
	for _, c := range everyCommand(a.root("")) {
		path := c.CommandPath()
		if c.Short == "" || strings.ContainsAny(c.Short, "\n") || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: Short is %q", path, c.Short)
		}
		if strings.TrimSpace(c.Example) == "" {
			t.Errorf("%s has no example", path)
		}
		for _, line := range strings.Split(c.Example, "\n") {
			checkExample(t, a, path, strings.TrimSpace(line))
		}
		if c.Runnable() && !c.HasSubCommands() && c.Flags().Lookup("output") == nil {
			switch c.Name() {
			case "credential", "unlock", "lock", "stop", "serve", "unit":
			default:
				t.Errorf("%s has no -o", path)
			}
		}
	}
	for _, topic := range []string{"exit-codes", "output"} {
		if out := b.ok("help", topic); len(out) < 200 {
			t.Errorf("help %s: %q", topic, out)
		}
	}
}

// checkExample parses an example as the program would.
func checkExample(t *testing.T, a *app, path, line string) {
	t.Helper()
	for _, end := range []string{" | ", " || ", " > ", " < ", " 3< "} {
		line, _, _ = strings.Cut(line, end)
	}
	args, err := shellFields(line)
	if err != nil || len(args) == 0 || args[0] != "kubehsm" {
		t.Errorf("%s: example %q is not a command of ours (%v)", path, line, err)
		return
	}
	c, rest, err := a.root("").Find(args[1:])
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err == nil {
		err = c.ValidateRequiredFlags()
	}
	if err == nil && c.HasSubCommands() && len(c.Flags().Args()) > 0 {
		err = cobra.NoArgs(c, c.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: example %q: %v", path, line, err)
	}
}

// shellFields splits a line with single-quoted words.
func shellFields(line string) ([]string, error) {
	parts := strings.Split(line, "'")
	if len(parts)%2 == 0 {
		return nil, fmt.Errorf("unbalanced quotes")
	}
	var words []string
	for i, p := range parts {
		if i%2 == 1 {
			words = append(words, p)
		} else {
			words = append(words, strings.Fields(p)...)
		}
	}
	return words, nil
}

func TestVersion(t *testing.T) {
	b := newBench(t)
	if out := b.ok("version"); !strings.HasPrefix(out, "kubehsm v0.0.0-test (go") {
		t.Errorf("%q", out)
	}
	if out := b.ok("--version"); out != "kubehsm version v0.0.0-test\n" {
		t.Errorf("%q", out)
	}
	if doc := document(t, b.ok("version", "-o", "json")); doc["version"] != "v0.0.0-test" || doc["platform"] == "" {
		t.Errorf("%v", doc)
	}
}

func TestYAMLAndJSONSayTheSame(t *testing.T) {
	b := newBench(t)
	var fromYAML map[string]any
	must.OK(t, yaml.Unmarshal([]byte(b.ok("token", "list", "-o", "yaml")), &fromYAML))
	if fromJSON := document(t, b.ok("token", "list", "-o", "json")); fmt.Sprint(fromJSON) != fmt.Sprint(fromYAML) {
		t.Errorf("JSON %v\nYAML %v", fromJSON, fromYAML)
	}
}

// plainOnly says that the terminal shows plain lines only.
type plainOnly struct{ error }

func (p plainOnly) Unwrap() error { return p.error }
func (plainOnly) Plain() bool     { return true }

// TestPlainCommands: where the terminal UI cannot be drawn, the commands that work by plain lines are named.
func TestPlainCommands(t *testing.T) {
	b := newBench(t)
	b.tui = func(context.Context, TUIOptions) (*enrolling.Result, error) { return nil, plainOnly{hsm.ErrNoTerminal} }
	for _, want := range []string{"  kubehsm token list ", "List the tokens that are present", "`kubehsm help` lists all commands."} {
		if out := b.ok(); !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("no %q in %q", want, out)
		}
	}
}
