package present

import (
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// Lifetimes are choices of how long a certificate is valid; 0 is the signer's choice.
func Lifetimes(all ...time.Duration) []verb.Choice {
	choices := make([]verb.Choice, len(all))
	for i, d := range all {
		choices[i] = verb.Choice{Label: Lifetime(d)}
		if d != 0 {
			choices[i].Value = d.String()
		}
	}
	return choices
}

// KeyChoices gives the options of a new key their choices. can is nil while the token is not known.
func KeyChoices(options []verb.Option, kind hsm.Kind, can *hsm.Abilities) {
	own := func(chosen bool) string {
		if chosen && kind.Policies && can != nil && !can.Policies {
			return "the card has no policies"
		}
		return ""
	}
	for i := range options {
		var choices []verb.Choice
		switch options[i].Into.(type) {
		case *hsm.Algorithm:
			for _, a := range hsm.Algorithms() {
				c := verb.Choice{Value: string(a), Clause: Algorithm(a)}
				if can != nil {
					c.Reason = can.Lacks(a)
				}
				choices = append(choices, c)
			}
		case *hsm.PINPolicy:
			for _, v := range []hsm.PINPolicy{hsm.PINDefault, hsm.PINOnce, hsm.PINAlways, hsm.PINNever} {
				c := verb.Choice{Value: v.String(), Clause: PINPolicy(v), Reason: own(v != hsm.PINDefault)}
				if v == hsm.PINDefault && kind.HasSlots() {
					c.Clause = "the card's default: once; in slot 9c always, in 9e never"
				}
				if v == hsm.PINNever && !kind.Policies {
					c.Reason = "PKCS#11 keys always need a login"
				}
				choices = append(choices, c)
			}
		case *hsm.TouchPolicy:
			if !kind.Policies {
				choices = []verb.Choice{{Value: hsm.TouchDefault.String(), Label: "never",
					Clause: "this kind of token has no sensor"}}
				break
			}
			for _, v := range []hsm.TouchPolicy{hsm.TouchDefault, hsm.TouchNever, hsm.TouchCached, hsm.TouchAlways} {
				if v == hsm.TouchDefault && can != nil && can.Policies {
					continue // such a key gets a policy of its own
				}
				choices = append(choices, verb.Choice{Value: v.String(), Clause: TouchPolicy(v),
					Reason: own(v != hsm.TouchDefault)})
			}
		default:
			continue
		}
		options[i].Choices = choices
	}
}
