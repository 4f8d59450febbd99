package token

import (
	"context"
	"encoding/hex"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

type secrets struct {
	Services
	info hsm.TokenInfo
}

func (s secrets) pin() tea.Cmd {
	u := s.info.URI()
	return screen.Change("Change the PIN", by("token pin change", u), "the PIN is changed",
		func(ctx context.Context, p hsm.Prompter) error {
			_, err := s.Tokens.ChangePIN(ctx, u, hsm.UserPIN, p)
			return err
		})
}

func (s secrets) unblock() tea.Cmd {
	u := s.info.URI()
	return screen.Change("Set a new PIN", by("token pin unblock", u), "the new PIN is set",
		func(ctx context.Context, p hsm.Prompter) error {
			_, err := s.Tokens.UnblockPIN(ctx, u, p)
			return err
		})
}

func (s secrets) secondPIN() string {
	if s.info.Kind().Unblocks == hsm.PUK {
		return "change PUK"
	}
	return "change SO PIN"
}

func (s secrets) second() tea.Cmd {
	u := s.info.URI()
	if s.info.Kind().Unblocks != hsm.PUK {
		so := true
		return s.change(u, hsm.SOPIN, by("token pin change", u, verb.Option{Flag: "so", Into: &so}))
	}
	generate := false
	how := verb.Option{Flag: "generate", Into: &generate, Label: "The new one", Choices: []verb.Choice{
		{Value: "false", Label: "is typed", Clause: "6 to 8 characters, twice"},
		{Value: "true", Label: "is random", Clause: "8 digits, shown once: keep them apart from the token"}}}
	return openForm(s.Keys, "A new PUK", "The PUK sets a new PIN when the old one is blocked.", []verb.Option{how},
		func(*widget.Form) tea.Cmd {
			if !generate {
				return s.change(u, hsm.PUK, by("token puk change", u))
			}
			return screen.Change("Change the PUK", by("token puk change", u, how), "the PUK is changed",
				func(ctx context.Context, p hsm.Prompter) error { return s.randomPUK(ctx, u, p) })
		})
}

func (s secrets) change(u hsm.URI, kind hsm.PINKind, command string) tea.Cmd {
	return screen.Change("Change the "+string(kind), command, "the "+string(kind)+" is changed",
		func(ctx context.Context, p hsm.Prompter) error {
			_, err := s.Tokens.ChangePIN(ctx, u, kind, p)
			return err
		})
}

// randomPUK shows the new PUK once, even after a failed change that may have taken effect.
func (s secrets) randomPUK(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	fresh, err := token.NewFreshPUK()
	if err != nil {
		return err
	}
	_, err = s.Tokens.ChangePIN(ctx, u, hsm.PUK, fresh.Before(p))
	puk := fresh.InForce(err)
	defer puk.Zero()
	if puk == nil {
		return err
	}
	screen.ShowNew(ctx, s.Runner.Finishing, p, "PUK", err, string(puk.Bytes()))
	return err
}

func openForm(k keys.Map, title, intro string, options []verb.Option, submit func(*widget.Form) tea.Cmd) tea.Cmd {
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewOptions(k, title, intro, options, submit)})
}

func (s secrets) managementKey() tea.Cmd {
	u := s.info.URI()
	o := hsm.ManagementKeyOptions{Protect: true}
	form := []verb.Option{{Flag: "protect", Into: &o.Protect, Label: "Keep it", Choices: []verb.Choice{
		{Value: "true", Label: "on the card", Clause: "read with the PIN: nothing to keep"},
		{Value: "false", Label: "yourself", Clause: "it is shown once; without it only a reset helps"}}}}
	return openForm(s.Keys, "A new management key", "A random key replaces the one that guards writing to the card.",
		form, func(*widget.Form) tea.Cmd {
			command := by("token management-key set", u, form...)
			return screen.Change("Replace the management key", command, "the management key is replaced",
				func(ctx context.Context, p hsm.Prompter) error {
					return s.setManagementKey(ctx, u, o, p)
				})
		})
}

// setManagementKey shows the new key if the card does not keep it, or if it may have taken effect
// although writing failed.
func (s secrets) setManagementKey(ctx context.Context, u hsm.URI, o hsm.ManagementKeyOptions, p hsm.Prompter) error {
	if !o.Protect {
		err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: "Go on?", DefaultYes: true,
			Detail: "A new management key is made and shown here once. Be ready to save it."})
		if err != nil {
			return err
		}
	}
	secret, _, err := s.Tokens.SetManagementKey(ctx, u, o, p)
	defer secret.Zero()
	if secret.Len() == 0 || o.Protect && err == nil {
		return err
	}
	screen.ShowNew(ctx, s.Runner.Finishing, p, "management key", err, hex.EncodeToString(secret.Bytes()))
	return err
}
