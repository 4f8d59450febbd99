package token

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

type contents struct {
	Services
	info hsm.TokenInfo
}

// generate makes a key in the slot under the cursor; tokens without slots choose the place.
func (c contents) generate(s hsm.Slot) tea.Cmd {
	o := enrolling.Options{Token: c.info.URI()}
	generate := &o.Generate
	title, flags := "A new key on "+present.Token(c.info), []string{"algorithm", "label"}
	if c.info.Kind().HasSlots() {
		title, flags = "A new key in slot "+s.ID, []string{"algorithm", "pin-policy", "touch-policy"}
		generate.Slot, generate.Overwrite = s.ID, s.Key != nil || s.Certificate != nil
	}
	form := enrolling.Form(&o, flags...)
	present.KeyChoices(form, c.info.Kind(), &c.info.Can)
	for i := range form {
		if form[i].Flag == "label" {
			form[i].Empty = "a name for the key"
		}
	}
	return openForm(c.Keys, title, "It is made on the token and never leaves it.", form, func(*widget.Form) tea.Cmd {
		line := verb.Line("key generate", enrolling.Form(&o, "token", "algorithm", "label", "slot", "pin-policy",
			"touch-policy", "overwrite")...)
		return screen.Change("Generate a key", line, "the key is made",
			func(ctx context.Context, p hsm.Prompter) error {
				if generate.Overwrite {
					if _, err := c.confirmLoss(ctx, s.URI, p,
						func(l token.Loss) (question, detail string) { return present.Overwrite(l.Token, s.ID) }); err != nil {
						return err
					}
				}
				_, err := c.TokenKeys.Generate(ctx, o.Token, *generate, p)
				return err
			})
	})
}

// confirmLoss shows what is lost and has the person type the token's serial.
func (c contents) confirmLoss(ctx context.Context, u hsm.URI, p hsm.Prompter,
	say func(token.Loss) (question, detail string)) (token.Loss, error) {
	l, err := c.Tokens.Loss(ctx, u)
	if err != nil {
		return l, err
	}
	question, detail := say(l)
	return l, screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: question,
		Detail: strings.Join(append(present.Loss(l), detail), "\n"), Type: l.Serial(), Short: l.Short})
}

func (c contents) deleteKey(s hsm.Slot) tea.Cmd {
	return screen.Change("Delete the key", by("key delete", s.URI), "the key is destroyed",
		func(ctx context.Context, p hsm.Prompter) error {
			l, err := c.confirmLoss(ctx, s.URI, p, present.DestroyKey)
			if err != nil {
				return err
			}
			return c.TokenKeys.Delete(ctx, s.URI, l, p)
		})
}
