package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
	"github.com/kubehsm/kubehsm/ui"
)

type descriptor struct {
	flag   string
	fd     int
	serves func(hsm.PINPrompt) bool
}

// secretFD adds a flag for the descriptor to read the secret from. The user PIN is also a card's
// PIV PIN.
func (a *app) secretFD(f *pflag.FlagSet, name, what string, serves func(hsm.PINPrompt) bool) *descriptor {
	d := &descriptor{flag: name, fd: -1, serves: serves}
	a.descriptors = append(a.descriptors, d)
	f.IntVar(&d.fd, name, -1, "read "+what+" from this open file `descriptor` instead of asking")
	return d
}

// descriptorsOpen checks that each descriptor in a flag is open and used once, before anything else
// opens files: see [pinsource.CheckDescriptor].
func (a *app) descriptorsOpen() error {
	used := map[int]string{}
	for _, d := range append([]*descriptor{{flag: "pin-fd", fd: a.pinFD}}, a.descriptors...) {
		if d.fd < 0 {
			continue
		}
		if err := pinsource.CheckDescriptor(d.fd); err != nil {
			return hint.With(ui.Usagef("--%s: descriptor %d: %v", d.flag, d.fd, err),
				fmt.Sprintf("open it in the shell: kubehsm … --%s 3 3< <(print-it)", d.flag))
		}
		if other, ok := used[d.fd]; ok {
			return hint.With(ui.Usagef("--%s and --%s: descriptor %d is read only once", other, d.flag, d.fd),
				"give each secret a descriptor of its own")
		}
		used[d.fd] = d.flag
	}
	return nil
}

func isNewPIN(p hsm.PINPrompt) bool {
	return p.New && (p.Kind == hsm.UserPIN || p.Kind == hsm.PIVPIN)
}

func isPUK(p hsm.PINPrompt) bool    { return !p.New && p.Kind == hsm.PUK }
func isNewPUK(p hsm.PINPrompt) bool { return p.New && p.Kind == hsm.PUK }

// isSOPIN: a token that is initialized for the first time gets a new one.
func isSOPIN(p hsm.PINPrompt) bool        { return p.Kind == hsm.SOPIN }
func isCurrentSOPIN(p hsm.PINPrompt) bool { return !p.New && p.Kind == hsm.SOPIN }
func isNewSOPIN(p hsm.PINPrompt) bool     { return p.New && p.Kind == hsm.SOPIN }

func isManagementKey(p hsm.PINPrompt) bool    { return !p.New && p.Kind == hsm.ManagementKey }
func isNewManagementKey(p hsm.PINPrompt) bool { return p.New && p.Kind == hsm.ManagementKey }

func (a *app) readManagementKey(ctx context.Context, t hsm.TokenInfo) (*hsm.Secret, error) {
	typed, err := a.prompter().PIN(ctx, hsm.PINPrompt{Kind: hsm.ManagementKey, Token: t, New: true, Retries: -1})
	if err != nil {
		return nil, err
	}
	defer typed.Zero()
	key := make([]byte, hex.DecodedLen(typed.Len()))
	if _, err := hex.Decode(key, typed.Bytes()); err != nil {
		clear(key)
		return nil, ui.Usagef("the new management key is not in hex digits")
	}
	return hsm.NewSecret(key), nil
}

// showable fails before anything is changed if nobody would see a secret that is shown only once.
func (a *app) showable(ctx context.Context, print bool, what string) error {
	if print {
		return nil
	}
	yes, err := a.prompter().Confirm(ctx, hsm.ConfirmPrompt{
		Detail:     "A new " + what + " is made and shown here once. Be ready to save it.",
		Question:   "Go on?",
		DefaultYes: true,
	})
	if err == nil && !yes {
		err = fmt.Errorf("%w: nothing was changed", hsm.ErrCancelled)
	}
	if errors.Is(err, hsm.ErrNoTerminal) {
		err = hint.With(err, "run it in a terminal, or have it on standard output with --print")
	}
	return err
}

type freshSecret struct {
	ctx    context.Context
	what   string // "PUK"
	field  string // the secret's name in JSON and YAML
	text   string // "" if there is none, or it is surely not in force
	secret *hsm.Secret
	print  bool
	err    error
}

func (f *freshSecret) inDocument(o *format) bool {
	return f.text != "" && f.print && o.value != "" && f.err == nil
}

// show shows the secret once: on standard output with --print, else to the person. It ignores the
// end of the command and falls back to standard error, because without the secret nobody can manage
// the token.
func (f *freshSecret) show(a *app, o *format) error {
	defer f.secret.Zero()
	what := "new " + f.what
	switch {
	case f.text == "" || f.inDocument(o):
		return nil
	case f.err != nil:
		what += ", which may be in force although the change failed"
	default:
		what += ", which is not shown again"
	}
	if f.print {
		w := a.out()
		w.line("%s", f.text)
		return w.flush()
	}
	ctx := context.WithoutCancel(f.ctx)
	defer a.Finishing.Begin()()
	for {
		kept, err := a.prompter().Confirm(ctx, hsm.ConfirmPrompt{
			Detail: "The " + what + ":\n\n    " + f.text + "\n", Question: "Have you saved it?",
		})
		switch {
		case err == nil && kept, errors.Is(err, hsm.ErrCancelled): // seen, either way
			return nil
		case err != nil:
			w := a.err()
			w.line("The %s: %s", what, f.text)
			return w.flush()
		}
	}
}
