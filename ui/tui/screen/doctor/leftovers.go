package doctor

import (
	"context"
	"errors"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/flow/doctor"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// unlockedMsg has a token looked at as it was read with its PIN.
type unlockedMsg struct{ view hsm.View }

// removedMsg has what was left deleted. view is the token as it was read again with its PIN, nil
// if it was not.
type removedMsg struct{ view *hsm.View }

// unlock reads the token whose private keys were not looked at.
func (m *Model) unlock(u hsm.URI) tea.Cmd {
	return screen.Operate(screen.Operation{Title: "Look for leftovers",
		Command: "kubehsm doctor --unlock " + shell.Quote(u.Identity().String()),
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			v, err := doctor.Unlock(ctx, m.look.Env, u, p)
			if err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Message: unlockedMsg{v}}, nil
		}})
}

// remove deletes what a command has left on a token, after the token's serial was typed.
func (m *Model) remove(left token.Leftover) tea.Cmd {
	keys, u := token.Keys{Env: m.look.Env}, left.Slot.URI
	say, remove := present.DestroyKey, keys.Delete
	switch {
	case left.OfOlder():
		say, remove = present.RemoveOlder, keys.DeleteOlder
	case left.OfCertificate():
		say, remove = present.RemoveCertificate, keys.DeleteCertificate
	}
	look := m.look
	return screen.Operate(screen.Operation{Title: "Delete what was left", Command: left.Command(), Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			l, done, err := keys.Find(ctx, u, p)
			if err != nil {
				return screen.Report{}, err
			}
			if left.OfCertificate() || left.OfOlder() {
				l.Enrollments = nil // The enrollments have a copy.
			}
			question, detail := say(l)
			err = screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: question,
				Detail: strings.Join(append(present.Loss(l), detail), "\n"), Type: l.Serial(), Short: l.Short})
			if err == nil {
				err = remove(ctx, u, l, p)
			}
			if err = errors.Join(err, done()); err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Said: "it is deleted", Message: removedMsg{again(ctx, look, p)}}, nil
		}})
}

// again reads the token of o that was read with its PIN once more. Where that fails it is
// looked at without its PIN.
func again(ctx context.Context, o doctor.Options, p hsm.Prompter) *hsm.View {
	if o.Unlocked == nil {
		return nil
	}
	v, err := doctor.Unlock(ctx, o.Env, o.Unlocked.Info.URI(), p)
	if err != nil {
		return nil
	}
	return &v
}
