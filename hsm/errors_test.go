package hsm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

var sentinels = []error{
	hsm.ErrNoToken, hsm.ErrSeveralTokens, hsm.ErrNoKey, hsm.ErrSeveralKeys, hsm.ErrNoCertificate, hsm.ErrOccupied,
	hsm.ErrKeyMismatch, hsm.ErrPINIncorrect, hsm.ErrPINLocked, hsm.ErrPINNotSet, hsm.ErrPINRequired, hsm.ErrPINInvalid,
	hsm.ErrNoTerminal, hsm.ErrCancelled, hsm.ErrTouchTimeout, hsm.ErrBusy, hsm.ErrRemoved, hsm.ErrModule,
	hsm.ErrUnsupported,
	hsm.ErrUnavailable, hsm.ErrBadURI,
}

func TestErrorCodes(t *testing.T) {
	seen := map[string]bool{}
	for _, want := range sentinels {
		err := hinting.With(fmt.Errorf("token %q: %w", "a", want), "do this")
		code := hsm.ErrorCode(err)
		if code == "" || seen[code] {
			t.Errorf("%v has the code %q", want, code)
		}
		seen[code] = true
		back := hsm.FromCode(code, err.Error(), hinting.Of(err))
		if !errors.Is(back, want) || back.Error() != err.Error() || hinting.Of(back) != "do this" {
			t.Errorf("%v came back as %v, hint %q", err, back, hinting.Of(back))
		}
		for _, other := range sentinels {
			if other != want && errors.Is(back, other) {
				t.Errorf("%v is also %v", back, other)
			}
		}
	}
	plain := errors.New("plain")
	if hsm.ErrorCode(plain) != "" || hsm.ErrorCode(nil) != "" {
		t.Error("a code for an error that has none")
	}
	if back := hsm.FromCode("from-a-newer-version", "m", ""); back.Error() != "m" || errors.Unwrap(back) != nil ||
		hinting.Of(back) != "" {
		t.Errorf("an unknown code: %v", back)
	}
}

func TestHint(t *testing.T) {
	if hinting.With(nil, "x") != nil {
		t.Error("a hint made an error of nil")
	}
	base := errors.New("base")
	if hinting.With(base, "") != base {
		t.Error("an empty hint wraps")
	}
	err := fmt.Errorf("around: %w", hinting.Withf(hinting.With(base, "inner"), "outer %d", 1))
	if hinting.Of(err) != "outer 1" || !errors.Is(err, base) || err.Error() != "around: base" {
		t.Errorf("%v, hint %q", err, hinting.Of(err))
	}
}

func TestPINError(t *testing.T) {
	for retries, want := range map[int]struct {
		is   error
		text string
	}{
		-1: {hsm.ErrPINIncorrect, "wrong PIV PIN"},
		0:  {hsm.ErrPINLocked, "wrong PIV PIN: it is blocked now"},
		1:  {hsm.ErrPINIncorrect, "wrong PIV PIN: 1 try left"},
		5:  {hsm.ErrPINIncorrect, "wrong PIV PIN: 5 tries left"},
	} {
		err := error(&hsm.PINError{Kind: hsm.PIVPIN, Retries: retries})
		if !errors.Is(err, want.is) || err.Error() != want.text {
			t.Errorf("%d: %v", retries, err)
		}
		if hint := hinting.Of(err); strings.Contains(hint, "`kubehsm token pin unblock`") != (retries == 0) {
			t.Errorf("%d: hint %q", retries, hint)
		}
	}
	if hint := hinting.Of(&hsm.PINError{Kind: hsm.PUK}); hint != "" { // the PUK unblocks the PIN, nothing the PUK
		t.Errorf("a blocked PUK: hint %q", hint)
	}
}
