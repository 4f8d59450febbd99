package screen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
)

// Operate asks the root to run an operation.
func Operate(o Operation) tea.Cmd { return Send(OperationMsg{Operation: o}) }

// Change asks the root to run what changes something, where a bare error and one
// line are enough of a report.
func Change(title, command, said string, run func(ctx context.Context, p hsm.Prompter) error) tea.Cmd {
	return Operate(Operation{Title: title, Command: command, Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (Report, error) { return Report{Said: said}, run(ctx, p) }})
}

// Sure asks a question; a no is [hsm.ErrCancelled].
func Sure(ctx context.Context, p hsm.Prompter, q hsm.ConfirmPrompt) error {
	yes, err := p.Confirm(ctx, q)
	if err == nil && !yes {
		err = hsm.ErrCancelled
	}
	return err
}

// Wrong puts into words an error that stands below a report; nil has no sections.
func Wrong(err error) []present.Section {
	if err == nil {
		return nil
	}
	lines := []present.Line{{Words: ui.Message(err), Level: present.Bad}}
	if hint := ui.Hint(err); hint != "" {
		lines = append(lines, present.Line{Words: hint, Level: present.Warn})
	}
	return []present.Section{{Lines: lines}}
}

// Steps tells the steps of an enrollment while it runs.
func Steps(ctx context.Context) func(enrolling.Event) {
	return func(e enrolling.Event) {
		line := e.Step.Title()
		if e.Message != "" {
			line += ": " + e.Message
		}
		Say(ctx, line)
	}
}

// ShowSecret shows a secret that is told only once, until the person has kept it.
// It does not give up with the operation, as f is told. state is what to know of it, such as
// "not shown again".
func ShowSecret(ctx context.Context, f hsm.Finishing, p hsm.Prompter, what, state, secret string) {
	detail := "The " + what + ", which is " + state + ":\n\n    " + secret
	defer f.Begin()()
	for kept := false; !kept; { // whatever is answered but a no, it was seen
		yes, err := p.Confirm(context.WithoutCancel(ctx), hsm.ConfirmPrompt{Question: "Have you saved it?", Detail: detail})
		kept = yes || err != nil
	}
}

// ShowNew shows a new secret once, also one that may be in force although its
// change failed with err.
func ShowNew(ctx context.Context, f hsm.Finishing, p hsm.Prompter, what string, err error, secret string) {
	state := "not shown again"
	if err != nil {
		state = "may be in force although the change failed"
	}
	ShowSecret(ctx, f, p, "new "+what, state, secret)
}

// Path is a file's name as a shell would read it, for "~/".
func Path(typed string) string {
	typed = strings.TrimSpace(typed)
	if rest, ok := strings.CutPrefix(typed, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return home + "/" + rest
		}
	}
	return typed
}

const mostFile = 1 << 20

// ReadFile reads a file that a person named, up to a mebibyte.
func ReadFile(path string) ([]byte, error) { return regularfile.Read(path, mostFile) }

// WriteNew writes a file that does not exist yet.
func WriteNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return hint.With(fmt.Errorf("%s exists already", path), "choose another name")
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
