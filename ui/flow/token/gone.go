package token

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
)

// IsGone tells whether the key that is on record with the fingerprint hash is certainly no longer
// where u names it, among the slots that its token shows: nothing is there, or another key. A token
// that hides keys until its PIN is given, or does not tell the public key, leaves that open.
func IsGone(u hsm.URI, hash string, slots []hsm.Slot) bool {
	i := slices.IndexFunc(slots, u.Identity().MatchSlot)
	if i < 0 {
		return !u.Kind().Hides
	}
	if s := slots[i]; s.Key == nil || s.Key.Public == nil {
		return s.Half == hsm.HalfCertificate && !u.Kind().Hides
	}
	now, err := hsm.Fingerprint(slots[i].Key.Public)
	return err == nil && now != hash
}

// Hides tells whether p may be why the token that u names is not seen: its library or the smart card
// service failed, or a card is busy. That a reader is empty hides nothing.
func Hides(p hsm.Problem, u hsm.URI) bool {
	switch {
	case p.Source == u.Scheme:
		return true
	case !u.Kind().Modules:
		return !filepath.IsAbs(p.Source) && !errors.Is(p.Err, hsm.ErrNoToken) && !errors.Is(p.Err, hsm.ErrUnsupported) &&
			!errors.Is(p.Err, hsm.ErrUnavailable)
	}
	return u.ModulePath != "" && strings.HasPrefix(p.Source, u.ModulePath)
}
