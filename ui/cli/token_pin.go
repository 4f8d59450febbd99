package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) tokenPIN() *cobra.Command {
	return a.group("pin", "Change the PIN, or set a new one when it is blocked",
		verbs{"", []func() *cobra.Command{a.tokenPINChange, a.tokenPINUnblock}})
}

func (a *app) tokenPINChange() *cobra.Command {
	var o *format
	var token string
	var so bool
	c := a.command(&cobra.Command{
		Use:   "change",
		Short: "Change the PIN of a token",
		Long: `Asks for the current PIN, and twice for the new one. It shows how many tries are left,
and asks for confirmation before the last one. A running agent forgets the PIN.

PIV PINs have 6 to 8 characters.`,
		Example: `kubehsm token pin change
kubehsm token pin change --token 'pkcs11:token=trial' --so
kubehsm token pin change --pin-fd 3 --new-pin-fd 4 3< old`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		u, err := a.token(c.Context(), token)
		if err != nil {
			return err
		}
		kind, what := hsm.UserPIN, "PIN"
		if so {
			if kind, what = hsm.SOPIN, "SO PIN"; u.Kind().Unblocks == hsm.PUK {
				return ui.Usagef("--so: a PIV card has no SO PIN; it has a PUK: `%s token puk change`", a.name())
			}
		}
		tokens, err := a.tokens()
		if err != nil {
			return err
		}
		d, err := tokens.ChangePIN(c.Context(), u, kind, a.prompter())
		return a.changed(o, d, "The "+what+" is changed.", &freshSecret{err: err})
	})
	c.Flags().BoolVar(&so, "so", false, "change the SO PIN of a PKCS#11 token")
	tokenFlag(c, &token)
	a.secretFD(c.Flags(), "new-pin-fd", "the new PIN", isNewPIN)
	a.secretFD(c.Flags(), "so-pin-fd", "the SO PIN in force", isCurrentSOPIN)
	a.secretFD(c.Flags(), "new-so-pin-fd", "the new SO PIN", isNewSOPIN)
	o = output(c)
	return c
}

// changeDoc has the secrets only with --print.
type changeDoc struct {
	detailsDoc
	NewPUK           string `json:"newPUK,omitempty"`
	NewManagementKey string `json:"newManagementKey,omitempty"`
	// Renamed is that a reset gave the card another identity.
	Renamed *token.Renamed `json:"renamed,omitempty"`
	// Commands make new keys of the enrollments that have lost theirs.
	Commands []string `json:"commands,omitempty"`
}

func (a *app) changed(o *format, d token.Details, what string, f *freshSecret) error {
	if err := f.show(a, o); err != nil || f.err != nil {
		return errors.Join(f.err, err)
	}
	doc := changeDoc{detailsDoc: detailsDocOf(d), Renamed: d.Renamed, Commands: d.Commands}
	if f.inDocument(o) {
		switch f.field {
		case "newPUK":
			doc.NewPUK = f.text
		case "newManagementKey":
			doc.NewManagementKey = f.text
		}
	}
	say := func(w *words) {
		w.line("%s", what)
		w.facts(tokenFacts(d.Info, append([]present.Fact{{Name: "Serial", Value: d.Info.Serial}},
			present.Secrets(d.Info, d.Details)...)))
		for _, line := range append(present.Renamed(d.Renamed), present.Anew(d.Commands)...) {
			w.block(line)
		}
	}
	if o.value == "" && f.text != "" && f.print { // standard output is the secret's
		w := a.err()
		say(w)
		return w.flush()
	}
	return a.emit(o, doc, say)
}

func (a *app) tokenPINUnblock() *cobra.Command {
	var o *format
	var token string
	c := a.command(&cobra.Command{
		Use:   "unblock",
		Short: "Set a new PIN with the PUK, or with the SO PIN of a PKCS#11 token",
		Long: `Sets a new PIN if the old one is blocked, forgotten or not yet set. A PIV card needs its
PUK for that, a PKCS#11 token its SO PIN. Keys and certificates stay.`,
		Example: `kubehsm token pin unblock
kubehsm token pin unblock --token 'piv:serial=12345678' --puk-fd 3 --new-pin-fd 4 3< puk`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		tokens, u, err := a.oneToken(c.Context(), token)
		if err != nil {
			return err
		}
		d, err := tokens.UnblockPIN(c.Context(), u, a.prompter())
		return a.changed(o, d, "The new PIN is set.", &freshSecret{err: err})
	})
	tokenFlag(c, &token)
	a.secretFD(c.Flags(), "new-pin-fd", "the new PIN", isNewPIN)
	a.secretFD(c.Flags(), "puk-fd", "the PUK", isPUK)
	a.secretFD(c.Flags(), "so-pin-fd", "the SO PIN", isSOPIN)
	o = output(c)
	return c
}
