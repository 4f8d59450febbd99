package cli

import (
	"context"
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
		"$ kubehsm kubeconfig migrate -- nowhere"} {
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
