package token

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// contents are the keys and certificates on a token.
type contents struct {
	Services
	info hsm.TokenInfo
}

// generate makes a key: in the slot under the cursor on a card, anywhere on
// other tokens.
func (c contents) generate(s hsm.Slot) tea.Cmd {
	u := c.info.URI()
	fields := []*widget.Field{{ID: "algorithm", Label: "Algorithm"}}
	for _, a := range hsm.Algorithms() {
		fields[0].Options = append(fields[0].Options,
			widget.Option{Label: string(a), Clause: present.Algorithm(a), Reason: c.info.Can.Lacks(a)})
	}
	pins := []hsm.PINPolicy{hsm.PINDefault, hsm.PINOnce, hsm.PINAlways, hsm.PINNever}
	touches := []hsm.TouchPolicy{hsm.TouchDefault, hsm.TouchNever, hsm.TouchCached, hsm.TouchAlways}
	title := "A new key on " + present.Token(c.info)
	if c.info.Kind().HasSlots() {
		title = "A new key in slot " + s.ID
		pin, touch := &widget.Field{ID: "pin", Label: "PIN"}, &widget.Field{ID: "touch", Label: "Touch"}
		own := func(chosen bool) string {
			return screen.When(chosen && !c.info.Can.Policies, "the card has no policies")
		}
		for _, v := range pins {
			pin.Options = append(pin.Options, widget.Option{Label: v.String(), Clause: present.PINPolicy(v),
				Reason: own(v != hsm.PINDefault)})
		}
		for _, v := range touches {
			touch.Options = append(touch.Options, widget.Option{Label: v.String(), Clause: present.TouchPolicy(v),
				Reason: own(v != hsm.TouchDefault)})
		}
		fields = append(fields, pin, touch)
	} else {
		fields = append(fields, &widget.Field{ID: "label", Label: "Label", Input: widget.NewInput("", "a name for the key")})
	}
	return openForm(c.Keys, title, "It is made on the token and never leaves it.", fields, func(f *widget.Form) tea.Cmd {
		o := hsm.GenerateOptions{Algorithm: hsm.Algorithms()[f.Field("algorithm").Index]}
		command := "key generate --algorithm " + string(o.Algorithm)
		if c.info.Kind().HasSlots() {
			o.Slot, o.PIN, o.Touch = s.ID, pins[f.Field("pin").Index], touches[f.Field("touch").Index]
			o.Overwrite = s.Key != nil || s.Certificate != nil
			command += " --slot " + o.Slot + " --pin-policy " + o.PIN.String() + " --touch-policy " + o.Touch.String()
			if o.Overwrite {
				command += " --overwrite"
			}
		} else if o.Label = strings.TrimSpace(f.Field("label").Input.Value()); o.Label != "" {
			command += " --label " + shell.Quote(o.Label)
		}
		return screen.Change("Generate a key", by(command, u), "the key is made",
			func(ctx context.Context, p hsm.Prompter) error {
				if o.Overwrite {
					if _, err := c.confirmLoss(ctx, s.URI, p,
						func(l token.Loss) (question, detail string) { return present.Overwrite(l.Token, s.ID) }); err != nil {
						return err
					}
				}
				_, err := c.TokenKeys.Generate(ctx, u, o, p)
				return err
			})
	})
}

// confirmLoss shows what is lost and has the token's serial typed.
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
