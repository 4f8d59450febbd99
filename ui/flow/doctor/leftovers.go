package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
)

// Refused is a token that could not be read with its PIN, and why.
type Refused struct {
	Token hsm.URI
	Err   error
	// Info describes the token as it was before, if it was found.
	Info hsm.TokenInfo
}

// IsFinding tells whether an error of [Unlock] says something of the token, and not of what was
// asked for or of who was asked.
func IsFinding(err error) bool {
	for _, e := range []error{hsm.ErrModule, hsm.ErrPINIncorrect, hsm.ErrPINLocked, hsm.ErrPINNotSet, hsm.ErrBusy,
		hsm.ErrRemoved} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// check is the finding.
func (r *Refused) check() Check {
	uri := r.Token.Identity().String()
	return Check{ID: "unlock/" + uri, Group: GroupTokens, Title: "PIN of " + uri}.
		with(Failed, r.Err.Error(), "Without its PIN no key on it can be used.", hint.Of(r.Err))
}

// Unlock reads the token that u names with its PIN, for [Options.Unlocked]. If that fails, the view
// has no more than the description.
func Unlock(ctx context.Context, e *env.Env, u hsm.URI, p hsm.Prompter) (hsm.View, error) {
	t, err := e.Drivers.Open(ctx, u)
	if err != nil {
		return hsm.View{}, err
	}
	defer t.Close()
	var v hsm.View
	if v.Info, err = t.Info(ctx); err == nil {
		err = t.Unlock(ctx, ask.With(p, hsm.Purpose{Action: "look for leftovers"}))
	}
	if err != nil {
		return v, err
	}
	v.Info, err = t.Info(ctx) // the state of its PIN may have changed
	if err == nil {
		v.Slots, err = t.Slots(ctx, nil)
	}
	return v, err
}

// leftovers says what interrupted commands may have left on a token, and what of it
// could not be seen.
func leftovers(o *Options, v hsm.View) []Check {
	var checks []Check
	uri := v.Info.URI()
	if seen := o.Unlocked; seen != nil && seen.Info.URI().String() == uri.String() {
		v = *seen
	} else if v.Info.Kind().Hides && v.Info.Initialized && !v.Info.PIN.NotNeeded && !v.Info.PIN.NotSet {
		checks = append(checks, Check{ID: "hidden/" + uri.String(), Group: GroupTokens,
			Title: "Leftovers on " + v.Info.Name(), Hidden: &uri}.
			with(Note, "private keys were not looked at: the token hides them until its PIN is given",
				"A command that was interrupted may have left half a key.",
				"kubehsm doctor --unlock "+shell.Quote(uri.Identity().String())))
	}
	records, err := o.records()
	var left []token.Leftover
	if err == nil {
		left, err = records.Leftovers(v.Info, v.Slots)
	}
	if err != nil {
		return append(checks, Check{ID: "leftovers/" + uri.String(), Group: GroupTokens,
			Title: "Leftovers on " + v.Info.Name()}.with(Unknown, err.Error(),
			"kubehsm does not know what belongs to an enrollment.",
			fixOr(err, "")))
	}
	for _, l := range left {
		checks = append(checks, leftover(l))
	}
	return checks
}

// leftover words what is left on a token. Who made it is never known.
func leftover(l token.Leftover) Check {
	c := Check{ID: "leftover/" + l.Slot.URI.String(), Group: GroupTokens, Title: "Leftover on " + l.Token.Name(),
		Leftover: &l}
	found, why := leftoverWords(l)
	since := ""
	switch {
	case l.Resume != "":
		since = ", of an enrollment that was interrupted on " + l.Since.Local().Format(time.DateOnly)
	case !l.Since.IsZero():
		since = ", issued " + l.Since.Local().Format(time.DateOnly)
	}
	state, fix := Warning, l.Command()
	if l.Slot.Half == "" { // a key may be another program's, made on purpose
		state = Note
	}
	switch {
	case len(l.Enrollments) > 0:
		why += " It is where the key of " + strings.Join(l.Enrollments, ", ") + " was: its public key can be put back."
		fix = "put the public key back with the token maker's tool, from the certificate that the enrollment keeps"
	case l.Resume != "":
		why, fix = why+" The enrollment continues with it, or removes it.", l.Resume
	case fix == "" && l.OfOlder():
		why += " This token does not support changing certificates."
	case fix == "":
		why += " This token cannot delete it; a new key in the same slot replaces it."
	default:
		why += " kubehsm cannot tell which program made it: make sure that no other program needs it."
	}
	return c.with(state, fmt.Sprintf("%s: %s%s", present.Place(l.Slot), found, since), why, fix)
}

func leftoverWords(l token.Leftover) (found, why string) {
	switch l.Slot.Half {
	case hsm.HalfPrivate:
		return "a private key without its public key", "kubehsm cannot use it."
	case hsm.HalfPublic:
		return "a public key without its private key", "Nothing can sign with it."
	case hsm.HalfApart:
		return "a private key and its public key, under different ids", "kubehsm cannot use it."
	case hsm.HalfCertificate:
		return "a certificate without its key", "Nothing can sign in with it."
	case hsm.HalfOther:
		return "a certificate for another key than the one beside it", "Nothing can sign in with it."
	}
	if l.OfOlder() {
		return present.Count(len(l.Slot.Older), "older certificate") + " beside the newest one for the key",
			"A program that is interrupted while it replaces a certificate may leave the old one behind."
	}
	return "a key without a certificate that no enrollment or request on this computer names",
		"An interrupted command may have left it."
}
