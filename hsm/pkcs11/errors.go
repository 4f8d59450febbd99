//go:build cgo

package pkcs11

import (
	"errors"
	"fmt"
	"slices"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// codeOf returns the CKR_ code in err's chain, or CKR_OK.
func codeOf(err error) uint {
	var rv p11.Error
	if errors.As(err, &rv) {
		return uint(rv)
	}
	return p11.CKR_OK
}

// is tells whether err is one of the CKR_ codes.
func is(err error, codes ...uint) bool {
	return err != nil && slices.Contains(codes, codeOf(err))
}

// lost tells whether the session is gone: closed behind our back, the token
// removed, the library reset. What was not started can be tried once more on a
// new session.
func lost(err error) bool {
	return is(err, p11.CKR_SESSION_CLOSED, p11.CKR_SESSION_HANDLE_INVALID, p11.CKR_DEVICE_REMOVED,
		p11.CKR_TOKEN_NOT_PRESENT, p11.CKR_CRYPTOKI_NOT_INITIALIZED, p11.CKR_SLOT_ID_INVALID)
}

// serverLost is the error of a library whose p11-kit server has ended.
type serverLost struct{ error }

func (e serverLost) Unwrap() error { return e.error }

// disconnected is serverLost where a token was open. It is [hsm.ErrDisconnected], in the words
// that say what was lost.
type disconnected struct{ serverLost }

// Is implements what [errors.Is] asks for.
func (disconnected) Is(target error) bool {
	return target == hsm.ErrDisconnected || target == hsm.ErrRemoved
}

// fault wraps a CKR_ error with what was being done and the sentinel that fits.
// Other errors are returned as they are.
func fault(doing string, err error) error {
	code := codeOf(err)
	if err == nil || code == p11.CKR_OK || errors.Is(err, hsm.ErrModule) || hsm.ErrorCode(err) != "" {
		return err
	}
	sentinel, hint := hsm.ErrModule, ""
	switch code {
	case p11.CKR_TOKEN_NOT_PRESENT, p11.CKR_DEVICE_REMOVED, p11.CKR_SLOT_ID_INVALID, p11.CKR_SESSION_CLOSED,
		p11.CKR_SESSION_HANDLE_INVALID:
		sentinel, hint = hsm.ErrRemoved, hsm.Somewhere.Back()
	case p11.CKR_PIN_INCORRECT:
		sentinel = hsm.ErrPINIncorrect
	case p11.CKR_PIN_LOCKED:
		sentinel, hint = hsm.ErrPINLocked, hsm.TokenInfo{}.Unblock()
	case p11.CKR_PIN_LEN_RANGE, p11.CKR_PIN_INVALID:
		sentinel = hsm.ErrPINInvalid
	case p11.CKR_PIN_EXPIRED:
		hint = "change the PIN with the token's own tool, for example pkcs11-tool --change-pin"
	case p11.CKR_USER_PIN_NOT_INITIALIZED:
		sentinel, hint = hsm.ErrPINNotSet, "`kubehsm token pin unblock` sets one with the SO PIN"
	case p11.CKR_USER_NOT_LOGGED_IN:
		sentinel = hsm.ErrPINRequired
	case p11.CKR_FUNCTION_CANCELED, p11.CKR_CANCEL, p11.CKR_FUNCTION_REJECTED:
		sentinel = hsm.ErrCancelled
	case p11.CKR_SESSION_COUNT, p11.CKR_SESSION_EXISTS, p11.CKR_SESSION_READ_ONLY_EXISTS,
		p11.CKR_USER_ANOTHER_ALREADY_LOGGED_IN, p11.CKR_USER_TOO_MANY_TYPES:
		sentinel, hint = hsm.ErrBusy, "close other programs that use the token"
	case p11.CKR_MECHANISM_INVALID, p11.CKR_MECHANISM_PARAM_INVALID, p11.CKR_KEY_SIZE_RANGE,
		p11.CKR_FUNCTION_NOT_SUPPORTED,
		p11.CKR_CURVE_NOT_SUPPORTED, p11.CKR_DOMAIN_PARAMS_INVALID, p11.CKR_KEY_FUNCTION_NOT_PERMITTED,
		p11.CKR_ATTRIBUTE_TYPE_INVALID,
		p11.CKR_ATTRIBUTE_VALUE_INVALID, p11.CKR_TEMPLATE_INCONSISTENT, p11.CKR_TEMPLATE_INCOMPLETE:
		sentinel = hsm.ErrUnsupported
	case p11.CKR_USER_TYPE_INVALID: // the security officer's work, in some libraries the management key's
		sentinel, hint = hsm.ErrUnsupported, "use the token's own tool for this; a PIV card can be named with a piv: URI"
	case p11.CKR_TOKEN_WRITE_PROTECTED:
		sentinel, hint = hsm.ErrUnsupported, "the token is write-protected; use another one"
	case p11.CKR_DEVICE_ERROR:
		hint = hsm.Somewhere.Back()
	case p11.CKR_DEVICE_MEMORY:
		sentinel, hint = hsm.ErrFull, "delete keys and certificates that are not needed"
	}
	return hinting.With(fmt.Errorf("%s: %w (%w)", doing, sentinel, err), hint)
}
