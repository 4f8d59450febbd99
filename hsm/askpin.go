package hsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// maxAsks bounds how often one call of [AskPIN] or [AskNewPIN] asks.
const maxAsks = 3

// AskPIN is the one way a PIN reaches a token. It reads the state of the secret that it
// asks for (state must not spend a try), refuses a blocked PIN before anybody types, wants
// a separate yes for the last try, and asks p. It turns away what cannot be the PIN (a
// YubiKey one-time password typed by a touch, a control character, a wrong length) without spending a try, and
// hands the rest to try. It asks again for a refused PIN ([*PINError]), at most three times
// in all. It never tries a PIN that was not typed for that try.
//
// Errors: [ErrPINLocked], [ErrPINNotSet], [ErrCancelled], [ErrNoTerminal],
// [*PINError], or whatever state and try return.
func AskPIN(ctx context.Context, p Prompter, kind PINKind, state func() (TokenInfo, error),
	try func(*Secret) error) error {
	if p == nil {
		return ErrPINRequired
	}
	again, told := "", 0
	for ask := 1; ; ask++ {
		info, err := state()
		if err != nil {
			return err
		}
		if err := admit(ctx, p, kind, info); err != nil {
			return err
		}
		if info.PIN.PINPad {
			err = onPad(ctx, p, kind, info, try)
		} else {
			err = askOnce(ctx, p, PINPrompt{Kind: kind, Token: info, Retries: info.PIN.Retries, Again: again, Told: told}, try)
		}
		var refused *PINError
		told = 0
		switch {
		case err == nil:
			return nil
		case ask < maxAsks && (errors.Is(err, errTriesSpent) || errors.Is(err, errChanged)): // the PIN was not presented
		case ask < maxAsks && errors.As(err, &refused) && refused.Retries != 0 && !info.PIN.PINPad:
			again, told = refused.Error(), max(refused.Retries, 0)
		case ask < maxAsks && errors.Is(err, ErrPINInvalid):
			again = err.Error()
		default:
			return err
		}
	}
}

// onPad tells of a PIN that is typed on the reader while try waits for it.
func onPad(ctx context.Context, p Prompter, kind PINKind, info TokenInfo, try func(*Secret) error) error {
	defer p.Touch(ctx, TouchPrompt{Token: info, Pad: kind})()
	return try(nil)
}

// admit refuses PINs that cannot succeed and guards the last try.
func admit(ctx context.Context, p Prompter, kind PINKind, info TokenInfo) error {
	switch s := info.PIN; {
	case s.Blocked():
		return blocked(kind, info)
	case s.NotSet:
		return hint.With(fmt.Errorf("token %s: %w", quote(info.Name()), ErrPINNotSet),
			"`kubehsm token pin unblock` sets one with the SO PIN")
	case s.Final || s.Retries == 1:
		detail := fmt.Sprintf("One try is left for the %s of token %s. A wrong one blocks it.", kind, quote(info.Name()))
		if kind == PUK {
			detail = "One try is left for the PUK. A wrong one blocks it for good."
		}
		yes, err := p.Confirm(ctx, ConfirmPrompt{Detail: detail, Question: "Use the last try?"})
		if err != nil {
			return err
		}
		if !yes {
			return fmt.Errorf("the last %s try was not used: %w", kind, ErrCancelled)
		}
	}
	return nil
}

// blocked says that no try is left, and what helps.
func blocked(kind PINKind, info TokenInfo) error {
	switch kind {
	case PUK:
		return hint.With(worded{"the PUK is blocked", ErrPINLocked},
			"only a reset of the PIV application helps; it destroys its keys")
	case SOPIN:
		return hint.With(worded{"the SO PIN of token " + quote(info.Name()) + " is blocked", ErrPINLocked},
			"only the maker's tools can help now")
	}
	return hint.With(fmt.Errorf("token %s: %w", quote(info.Name()), ErrPINLocked), info.Unblock())
}

func askOnce(ctx context.Context, p Prompter, prompt PINPrompt, try func(*Secret) error) error {
	pin, err := p.PIN(ctx, prompt)
	if err != nil {
		return err
	}
	defer pin.Zero()
	if err := CheckPIN(prompt.Kind, pin, prompt.Token.PIN); err != nil {
		return err
	}
	return try(pin)
}

// AskNewPIN asks p for a new PIN of that kind until it has a fit form, at most three
// times in all. check turns away what [CheckPIN] does not ([ErrPINInvalid]); nil is
// nothing. The caller zeroes what is returned.
func AskNewPIN(ctx context.Context, p Prompter, kind PINKind, info TokenInfo,
	check func(*Secret) error) (*Secret, error) {
	prompt := PINPrompt{Kind: kind, Token: info, Retries: -1, New: true}
	for ask := 1; ; ask++ {
		fresh, err := p.PIN(ctx, prompt)
		if err != nil {
			return nil, err
		}
		err = CheckPIN(kind, fresh, info.PIN)
		if err == nil && check != nil {
			err = check(fresh)
		}
		if err == nil {
			return fresh, nil
		}
		fresh.Zero()
		if ask == maxAsks || !errors.Is(err, ErrPINInvalid) {
			return nil, err
		}
		prompt.Again = err.Error()
	}
}

// CheckPIN turns away what cannot be a secret of that kind, so that no try is spent on it. The
// error wraps [ErrPINInvalid].
func CheckPIN(kind PINKind, pin *Secret, s PINState) error {
	switch n := pin.Len(); {
	case n == 0:
		return Unfit(kind, "it is empty")
	case looksLikeOTP(pin.Bytes()):
		return Unfit(kind, "that was a one-time password, typed by a touch of the YubiKey; no try was used")
	case impossible(kind, pin.Bytes()):
		return Unfit(kind, "it contains a control character, such as a tab; no try was used")
	case s.MinLen > 0 && n < s.MinLen:
		return Unfit(kind, "it must have at least %d characters; no try was used", s.MinLen)
	case s.MaxLen > 0 && n > s.MaxLen:
		return Unfit(kind, "it may have at most %d characters; no try was used", s.MaxLen)
	}
	return nil
}

// impossible reports whether b has what no secret of that kind can have: a control character or,
// on a PIV card, the byte that fills a short one up (SP 800-73-4 part 2 section 2.4.3). Secrets
// that no token has, such as tickets, may have several lines.
func impossible(kind PINKind, b []byte) bool {
	switch kind {
	case PIVPIN, PUK:
		if bytes.IndexByte(b, 0xff) >= 0 {
			return true
		}
	case UserPIN, SOPIN, ManagementKey:
	default:
		return false
	}
	return bytes.ContainsFunc(b, unicode.IsControl)
}

// errTriesSpent says that a PIN was not presented, see [CheckTries].
var errTriesSpent = fmt.Errorf("%w: another program has used tries of it meanwhile; none was used now", ErrPINInvalid)

// errChanged says that a PIN was not presented, see [CheckTries].
var errChanged = fmt.Errorf("%w: another program has changed it meanwhile; no try was used", ErrPINInvalid)

// CheckTries turns a PIN away that was asked for when the token had more tries
// left than now, perhaps none, or only the last one, which needs a yes of its own; or when the
// default PIN was in force, which is not any more. A
// driver calls it when it is alone with the token, just before it presents the PIN.
// [AskPIN] then asks anew by the state that the token is in.
func CheckTries(asked, now PINState) error {
	if now.Retries >= 0 && now.Retries < asked.Retries || now.Low && !asked.Low || now.Final && !asked.Final ||
		now.Locked && !asked.Locked {
		return errTriesSpent
	}
	if asked.Default && !now.Default {
		return errChanged
	}
	return nil
}

// looksLikeOTP recognizes 32 or more ModHex characters, what a YubiKey types
// when its sensor is touched by accident (12 of identity, 32 of password).
func looksLikeOTP(b []byte) bool {
	if len(b) < 32 {
		return false
	}
	for _, c := range b {
		if !strings.ContainsRune("cbdefghijklnrtuv", rune(c)) {
			return false
		}
	}
	return true
}

func quote(s string) string { return fmt.Sprintf("%q", s) }
