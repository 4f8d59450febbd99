package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// plainOnly says that the terminal shows plain lines only.
type plainOnly struct{ error }

func (p plainOnly) Unwrap() error { return p.error }
func (plainOnly) Plain() bool     { return true }

func plainBench(t *testing.T, stdin string) *bench {
	b := newBench(t)
	b.tui = func(context.Context, TUIOptions) (*enrolling.Result, error) { return nil, plainOnly{hsm.ErrNoTerminal} }
	b.stdin = stdin
	return b
}

// TestMenu: where the terminal UI cannot be drawn the same is offered line by
// line, an error does not end it, and each command is shown.
func TestMenu(t *testing.T) {
	b := plainBench(t, "1\n99\n7\nnowhere\nq\n")
	code, out, errs := b.run()
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"What do you want to do?", "$ kubehsm token list", "trial",
		"$ kubehsm kubeconfig check -- nowhere"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	for _, want := range []string{`There is no "99"`, "error: ", "nowhere"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in %s", want, errs)
		}
	}
	if strings.Contains(out+errs, "\x1b") {
		t.Error("an escape sequence on a plain terminal")
	}
}

// TestMenuEndsWithItsInput does not spin.
func TestMenuEndsWithItsInput(t *testing.T) {
	if code, _, errs := plainBench(t, "").run(); code != 0 || errs != "" {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestMenuReadOnly offers nothing that changes something.
func TestMenuReadOnly(t *testing.T) {
	b := plainBench(t, "q\n")
	out := b.ok("--read-only")
	if strings.Contains(out, "enroll a key") || !strings.Contains(out, "see tokens") {
		t.Errorf("offered %s", out)
	}
	b.env[envReadOnly] = "1"
	if again := b.ok(); again != out {
		t.Errorf("%s is not as --read-only: %s", envReadOnly, again)
	}
}

// TestMenuCommandsExist: every choice names a command, and flags that it has.
func TestMenuCommandsExist(t *testing.T) {
	a := &app{Program: &Program{Args: []string{"kubehsm"}}, pinFD: -1}
	root := a.root("")
	for _, c := range append(choices(), moreChoices()...) {
		if c.title == moreTitle {
			continue
		}
		found, rest, err := root.Find(c.args)
		if err != nil || found == root {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		if err := found.ParseFlags(rest); err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		for _, q := range c.asks {
			if q.flag != "" && found.Flags().Lookup(q.flag) == nil && found.InheritedFlags().Lookup(q.flag) == nil {
				t.Errorf("%v has no --%s", c.args, q.flag)
			}
		}
	}
}

// TestMenuHasAll: what a screen of the terminal UI does can be chosen by lines.
func TestMenuHasAll(t *testing.T) {
	root := (&Program{Args: []string{"kubehsm"}, Getenv: func(string) string { return "" }}).Command()
	without := map[string]string{
		"token wait": "the list is asked again", "key list": "the list of tokens has them", "bootstrap-token generate": "for scripts",
		"agent serve": "a part of the program", "agent hold": "a part of the program", "credential": "kubectl runs it", "external-signer serve": "clients run it",
		"exit-codes": "for scripts", "output": "for scripts", "version": "the doctor says it",
	}
	all := append(choices(), moreChoices()...)
	for _, c := range everyCommand(root) {
		_, words, _ := strings.Cut(c.CommandPath(), " ")
		if len(c.Commands()) > 0 || without[words] != "" {
			continue
		}
		if !slices.ContainsFunc(all, func(o choice) bool {
			return strings.HasPrefix(strings.Join(o.args, " ")+" ",
				words+" ")
		}) {
			t.Errorf("%s: the menu does not offer it", words)
		}
	}
}

// TestMenuShowsMore: the rest is shown when it is asked for, and stays; flags
// stand before arguments, in whichever order they were asked for.
func TestMenuShowsMore(t *testing.T) {
	more := slices.IndexFunc(choices(), func(c choice) bool { return c.title == moreTitle }) + 1
	importing := len(choices()) + slices.IndexFunc(moreChoices(),
		func(c choice) bool { return slices.Equal(c.args, []string{"certificate", "import"}) }) + 1
	b := plainBench(t, fmt.Sprintf("%d\n%d\nhere.pem\nnokey\nq\n", more, importing))
	code, out, errs := b.run()
	before, after, found := strings.Cut(out, "Number, or q to leave: ")
	if code != 0 || !found || strings.Contains(before, "revoke access after") ||
		strings.Count(after, "revoke access after") != 2 {
		t.Errorf("%d: %s", code, out)
	}
	if !strings.Contains(out, "$ kubehsm certificate import --key=nokey -- here.pem") ||
		!strings.Contains(errs, "error: ") {
		t.Errorf("%s\n%s", out, errs)
	}
}
