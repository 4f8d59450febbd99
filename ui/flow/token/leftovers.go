package token

import (
	"crypto"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Leftover is something on a token that a command may have left which was killed. No
// token tells who made it: it may be another program's too.
type Leftover struct {
	Token hsm.TokenInfo
	// Slot has what is left. Half tells which part of a key that is. Without, it is the older
	// certificates or, if there are none, a key that nothing here has a record of.
	Slot hsm.Slot
	// Resume is the command of an enrollment that was interrupted when it made the key, and
	// goes on with it, or removes it; "" if there is none.
	Resume string
	// Since is when that was, or when a certificate begins; zero if nothing tells.
	Since time.Time
	// Enrollments name it: a private key without its public key may be theirs.
	Enrollments []string
}

// Command removes the leftover, and nothing else. "" if the token cannot remove it.
func (l Leftover) Command() string {
	key := shell.Quote(l.Slot.URI.Identity().String())
	switch {
	case l.OfOlder() && l.Token.Can.Store:
		return "kubehsm certificate delete --older --key " + key
	case l.OfOlder():
		return ""
	case l.OfCertificate() && l.Token.Can.DeleteCertificate:
		return "kubehsm certificate delete --key " + key
	case !l.OfCertificate() && l.Token.Can.Delete:
		return "kubehsm key delete --key " + key
	}
	return ""
}

// OfCertificate tells whether it is the certificate that is left, and not a key.
func (l Leftover) OfCertificate() bool {
	return l.Slot.Half == hsm.HalfCertificate || l.Slot.Half == hsm.HalfOther
}

// OfOlder tells whether it is older certificates that are left, beside a key and its newest
// certificate.
func (l Leftover) OfOlder() bool { return l.Slot.Half == "" && len(l.Slot.Older) > 0 }

// Leftovers finds what is left among the slots of a token, as far as it shows them.
func (r Records) Leftovers(token hsm.TokenInfo, slots []hsm.Slot) ([]Leftover, error) {
	var all []Leftover
	for _, s := range slots {
		l := Leftover{Token: token, Slot: s}
		hash, err := l.fingerprint()
		if err != nil {
			return nil, err
		}
		if s.Half == "" && !l.OfOlder() && (s.Key == nil || s.Certificate != nil || r.keys[hash]) {
			continue
		}
		if l.OfOlder() {
			l.Since = s.Older[0].NotBefore
		} else if s.Certificate != nil {
			l.Since = s.Certificate.NotBefore
		}
		if s.Half == hsm.HalfPrivate {
			if l.Enrollments, err = withKeys(r.enrollments, token, []hsm.Slot{s}); err != nil {
				return nil, err
			}
		}
		for _, j := range r.begun {
			if !l.OfOlder() && madeBy(j, token, s, hash) {
				l.Resume, l.Since = j.Options.Resume(), j.Updated
			}
		}
		all = append(all, l)
	}
	return all, nil
}

// fingerprint is that of the key or, without one, of the certificate's; "" if nothing tells.
func (l Leftover) fingerprint() (string, error) {
	var public crypto.PublicKey
	switch {
	case l.Slot.Key != nil:
		public = l.Slot.Key.Public
	case l.Slot.Certificate != nil:
		public = l.Slot.Certificate.PublicKey
	}
	if public == nil {
		return "", nil
	}
	return hsm.Fingerprint(public)
}

// madeBy tells whether an enrollment was interrupted while it made what is in a slot.
func madeBy(j enrolling.Progress, token hsm.TokenInfo, s hsm.Slot, hash string) bool {
	o := j.Options.Generate
	here := s.Label == o.Label
	if token.Kind().HasSlots() {
		here = s.ID == o.Slot
	}
	return here && j.Generating && !slices.Contains(j.Before, hash) && j.Options.Token.MatchToken(token)
}

// Records is what is on record here of keys.
type Records struct {
	enrolled []enrollment.Enrollment
	begun    []enrolling.Progress // finished or not
	keys     map[string]bool      // fingerprints of the keys that records name
}

func (r Records) enrollments() ([]enrollment.Enrollment, error) { return r.enrolled, nil }

// Records reads what is on record besides the enrollments that were read already, which
// must be all.
func (ts Tokens) Records(enrolled []enrollment.Enrollment) (Records, error) {
	store := enrolling.NewStore(ts.Env)
	begun, err := store.All()
	if err != nil {
		return Records{}, err
	}
	requested, err := store.RequestedKeys()
	if err != nil {
		return Records{}, err
	}
	r := Records{enrolled: enrolled, begun: begun, keys: map[string]bool{}}
	for _, en := range enrolled {
		r.keys[en.KeyHash] = true
	}
	for _, j := range begun {
		r.keys[j.Request.KeyHash] = true
	}
	for _, key := range requested {
		r.keys[key] = true
	}
	return r, nil
}
