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
)

// secrets are the PINs and keys that guard a token.
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

// second changes the secret that unblocks the PIN.
func (s secrets) second() tea.Cmd {
	u := s.info.URI()
	if s.info.Kind().Unblocks != hsm.PUK {
		return s.change(u, hsm.SOPIN, by("token pin change --so", u))
	}
	how := &widget.Field{ID: "how", Label: "The new one", Options: []widget.Option{
		{Label: "is typed", Clause: "6 to 8 characters, twice"}, {Label: "is random",
			Clause: "8 digits, shown once: keep them apart from the token"}}}
	return openForm(s.Keys, "A new PUK", "The PUK sets a new PIN when the old one is blocked.", []*widget.Field{how},
		func(*widget.Form) tea.Cmd {
			if how.Index == 0 {
				return s.change(u, hsm.PUK, by("token puk change", u))
			}
			return screen.Change("Change the PUK", by("token puk change --generate", u), "the PUK is changed",
				func(ctx context.Context, p hsm.Prompter) error {
					return s.randomPUK(ctx, u, p)
				})
		})
}

func (s secrets) change(u hsm.URI, kind hsm.PINKind, command string) tea.Cmd {
	return screen.Change("Change the "+string(kind), command, "the "+string(kind)+" is changed",
		func(ctx context.Context, p hsm.Prompter) error {
			_, err := s.Tokens.ChangePIN(ctx, u, kind, p)
			return err
		})
}

// randomPUK changes the PUK to random digits and shows them once, also where they
// may be in force although the change failed.
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

func openForm(k keys.Map, title, intro string, fields []*widget.Field, submit func(*widget.Form) tea.Cmd) tea.Cmd {
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewForm(k, title, intro, fields, submit)})
}

func (s secrets) managementKey() tea.Cmd {
	u := s.info.URI()
	ciphers := []hsm.ManagementAlgorithm{"", hsm.TDES, hsm.AES128, hsm.AES192, hsm.AES256}
	fields := []*widget.Field{
		{ID: "keep", Label: "Keep it", Options: []widget.Option{
			{Label: "on the card", Clause: "read with the PIN: nothing to keep"},
			{Label: "yourself", Clause: "it is shown once; without it only a reset helps"}}},
		{ID: "cipher", Label: "Cipher", Options: []widget.Option{{Label: "as it is"},
			{Label: "3des", Clause: "before firmware 5.4"}, {Label: "aes-128"},
			{Label: "aes-192", Clause: "the default from 5.7 on"}, {Label: "aes-256"}}},
		{ID: "touch", Label: "Touch", Options: []widget.Option{{Label: "never"},
			{Label: "always", Clause: "a touch whenever a key or certificate is written"}}},
	}
	return openForm(s.Keys, "A new management key", "A random key replaces the one that guards writing to the card.",
		fields, func(f *widget.Form) tea.Cmd {
			o := hsm.ManagementKeyOptions{Protect: f.Field("keep").Index == 0, Algorithm: ciphers[f.Field("cipher").Index],
				Touch: f.Field("touch").Index == 1}
			command := "token management-key set"
			if o.Protect {
				command += " --protect"
			}
			if o.Algorithm != "" {
				command += " --algorithm " + string(o.Algorithm)
			}
			if o.Touch {
				command += " --touch"
			}
			return screen.Change("Replace the management key", by(command, u), "the management key is replaced",
				func(ctx context.Context, p hsm.Prompter) error {
					return s.setManagementKey(ctx, u, o, p)
				})
		})
}

// setManagementKey replaces the key and shows the new one where nobody else
// keeps it, or where it may be in force although writing failed.
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
