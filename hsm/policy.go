package hsm

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// PINPolicy says when a token asks for the PIN before a key is used. The zero
// value leaves the choice to the token; PKCS#11 tokens know only Once and,
// with CKA_ALWAYS_AUTHENTICATE, Always. (Yubico PIV extensions, "PIN policy".)
type PINPolicy uint8

// The PIN policies.
const (
	PINDefault PINPolicy = iota
	PINNever
	PINOnce
	PINAlways
)

var pinPolicies = []string{"default", "never", "once", "always"}

// ParsePINPolicy reads "never", "once", "always" or "default" ("" is default).
func ParsePINPolicy(s string) (PINPolicy, error) {
	i, err := parsePolicy("PIN", s, pinPolicies)
	return PINPolicy(i), err
}

func (p PINPolicy) String() string { return policyName(int(p), pinPolicies) }

// MarshalText implements [encoding.TextMarshaler].
func (p PINPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *PINPolicy) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePINPolicy(string(b))
	return err
}

// TouchPolicy says when a token wants to be touched before a key is used. The
// zero value leaves the choice to the token; tokens without a sensor know only
// Never. (Yubico PIV extensions, "touch policy": Cached keeps for 15 s.)
type TouchPolicy uint8

// The touch policies.
const (
	TouchDefault TouchPolicy = iota
	TouchNever
	TouchCached
	TouchAlways
)

var touchPolicies = []string{"default", "never", "cached", "always"}

// ParseTouchPolicy reads "never", "cached", "always" or "default" ("" is default).
func ParseTouchPolicy(s string) (TouchPolicy, error) {
	i, err := parsePolicy("touch", s, touchPolicies)
	return TouchPolicy(i), err
}

func (p TouchPolicy) String() string { return policyName(int(p), touchPolicies) }

// MarshalText implements [encoding.TextMarshaler].
func (p TouchPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *TouchPolicy) UnmarshalText(b []byte) (err error) {
	*p, err = ParseTouchPolicy(string(b))
	return err
}

func parsePolicy(kind, s string, names []string) (int, error) {
	if s == "" {
		return 0, nil
	}
	for i, n := range names {
		if strings.EqualFold(s, n) {
			return i, nil
		}
	}
	return 0, hint.With(fmt.Errorf("unknown %s policy %q", kind, s), "use one of "+strings.Join(names, ", "))
}

func policyName(i int, names []string) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}
