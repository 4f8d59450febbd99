package applet

import (
	"bytes"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
)

// ykman keeps two objects of its own (yubikey-manager, "PivmanData" and
// "PivmanProtectedData"): flags that anybody may read, and, in the object for
// printed information, which wants the PIN, the management key. yubikey-agent
// and other users of piv-go write the second alone.
const (
	tagPivman     = 0x80
	tagFlags      = 0x81
	tagProtected  = 0x88
	tagProtectKey = 0x89
	// tagNextKey is ours: a key that is about to be put in force. Other programs pass over it.
	tagNextKey = 0x8f

	flagPUKBlocked = 0x01
	flagKeyStored  = 0x02
)

// pivman is ykman's object of flags.
type pivman struct {
	known  bool // the object is there
	stored bool // the management key is in the protected object
	raw    objects
}

// pivman reads the flags.
func (k Management) pivman() (pivman, error) {
	content, err := k.objects.get(objectPivman)
	if err != nil {
		if Refused(err) {
			return pivman{}, nil
		}
		return pivman{}, err
	}
	return parsePivman(content), nil
}

// Kept tells whether ykman's flags say that the card keeps the key; known is false if
// there are no flags.
func (k Management) Kept() (kept, known bool, err error) {
	flags, err := k.pivman()
	return flags.stored, flags.known, err
}

// parsePivman reads the flags; what cannot be read counts as absent.
func parsePivman(content []byte) pivman {
	if len(content) == 0 {
		return pivman{}
	}
	inner, err := unwrap(content, tagPivman)
	if err != nil {
		return pivman{}
	}
	fields, err := parseTLV(inner)
	if err != nil {
		return pivman{}
	}
	flags, _ := fields.get(tagFlags)
	return pivman{known: true, stored: len(flags) == 1 && flags[0]&flagKeyStored != 0, raw: fields}
}

// with returns the object with the stored flag set or cleared, its other
// fields kept.
func (m pivman) with(stored bool) []byte {
	flags := []byte{0}
	if old, _ := m.raw.get(tagFlags); len(old) == 1 {
		flags[0] = old[0] &^ flagKeyStored
	}
	if stored {
		flags[0] |= flagKeyStored
	}
	return tlv(tagPivman, m.raw.replace(tagFlags, flags))
}

// replace encodes the objects with the value under tag set, or removed if nil.
func (all objects) replace(tag uint32, value []byte) []byte {
	var out []byte
	if value != nil {
		out = tlv(tag, value)
	}
	for _, o := range all {
		if o.tag != tag {
			out = append(out, tlv(o.tag, o.value)...)
		}
	}
	return out
}

// KeptKeys reads the management keys that the card keeps, to be zeroed: the one in force,
// and the one that was to follow it where that was interrupted. Each is nil if there is
// none. The PIN must have been proved.
func (k Management) KeptKeys() (key, next *hsm.Secret, err error) {
	content, err := k.objects.get(objectPrinted)
	if err != nil {
		if Refused(err) {
			return nil, nil, nil
		}
		return nil, nil, err
	}
	defer clear(content)
	return parseProtected(content, tagProtectKey), parseProtected(content, tagNextKey), nil
}

// Keep writes a key to where only the PIN reads it, in the place of others, or removes it
// (nil). PIN and management key must have been proved.
func (k Management) Keep(key *hsm.Secret) error { return k.keep(key, nil) }

// Announce writes a key that is about to be put in force beside the one that the card
// keeps, and notes for ykman that the card keeps one: whenever this is interrupted, the key
// in force is one of those that the card keeps, or the one that somebody knew before.
func (k Management) Announce(kept, next *hsm.Secret) error {
	if kept == nil {
		kept, next = next, nil
	}
	if err := k.keep(kept, next); err != nil {
		return err
	}
	flags, err := k.pivman()
	if err != nil || !flags.known || flags.stored {
		return err
	}
	return k.objects.put(objectPivman, flags.with(true))
}

func (k Management) keep(key, next *hsm.Secret) error {
	old, err := k.objects.get(objectPrinted)
	if err != nil && !Refused(err) {
		return err
	}
	defer clear(old)
	data := protect(old, key, next)
	defer clear(data)
	return k.objects.put(objectPrinted, data)
}

// parseProtected finds the key under tag; other content of the object is no error.
func parseProtected(content []byte, tag uint32) *hsm.Secret {
	inner, err := unwrap(content, tagProtected)
	if err != nil {
		return nil
	}
	fields, err := parseTLV(inner)
	if err != nil {
		return nil
	}
	key, ok := fields.get(tag)
	if !ok || len(key) != 16 && len(key) != 24 && len(key) != 32 {
		return nil
	}
	return hsm.NewSecret(bytes.Clone(key))
}

// protect encodes the protected object with key in it and the one that is to follow,
// each left out if it is nil; its other fields are kept.
func protect(content []byte, key, next *hsm.Secret) []byte {
	var fields objects
	if inner, err := unwrap(content, tagProtected); err == nil {
		fields, _ = parseTLV(inner) // nonsense is replaced
	}
	without := fields.replace(tagNextKey, nil)
	defer clear(without)
	fields, _ = parseTLV(without)
	inner := slices.Concat(fields.replace(tagProtectKey, key.Bytes()), objects(nil).replace(tagNextKey, next.Bytes()))
	defer clear(inner)
	return tlv(tagProtected, inner)
}
