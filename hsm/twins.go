package hsm

import (
	"slices"
	"strings"
)

// WithoutTwins leaves out what is another way to a token that stays in: PKCS#11 tokens that
// are the PIV application of a card listed itself, which as PIV can do all that it can, and
// those that an earlier library reaches as well.
func WithoutTwins(tokens []TokenInfo) []TokenInfo {
	views := make([]View, len(tokens))
	for i, t := range tokens {
		views[i].Info = t
	}
	var single []TokenInfo
	for _, v := range withoutTwins(views) {
		single = append(single, v.Info)
	}
	return single
}

// withoutTwins is [WithoutTwins] for tokens with what is on them: a way by which that could
// be read is better than one by which it could not.
func withoutTwins(views []View) []View {
	var single []View
	for i, v := range views {
		twinned := slices.ContainsFunc(views, func(card View) bool {
			return twin(v.Info, card.Info) || maybeTwin(v.Info) && card.Info.Scheme == SchemePIV && sameKeys(v, card)
		})
		for j, other := range views {
			better := other.Err == nil && v.Err != nil || (other.Err == nil) == (v.Err == nil) && j < i
			twinned = twinned || better && sameToken(v.Info, other.Info)
		}
		if !twinned {
			single = append(single, v)
		}
	}
	return single
}

// sameToken tells whether two libraries reach one token: it says the same of itself. Some
// give all their tokens a serial of zeros, which tells nothing. A token that is not set up
// has no serial: it is taken for the one in a place of the same name, if it arrives by a server.
func sameToken(a, b TokenInfo) bool {
	if a.Scheme != SchemePKCS11 || b.Scheme != SchemePKCS11 || a.Module == nil || b.Module == nil ||
		a.Module.Path == b.Module.Path || a.Initialized != b.Initialized || a.Serial != b.Serial ||
		a.Label != b.Label || a.Model != b.Model || a.Manufacturer != b.Manufacturer {
		return false
	}
	if !a.Initialized {
		return a.Reader == b.Reader && a.Reader != "" && (a.Module.Server != "" || b.Module.Server != "")
	}
	return strings.Trim(a.Serial, "0") != ""
}

// sameKeys tells whether a token has keys, and all of them are on the card too.
func sameKeys(v, card View) bool {
	some := false
	for _, s := range v.Slots {
		if s.Key == nil {
			continue
		}
		some = true
		if !slices.ContainsFunc(card.Slots, func(c Slot) bool { return c.Key != nil && SameKey(c.Key.Public, s.Key.Public) }) {
			return false
		}
	}
	return some
}

// openSCPIV is the manufacturer that OpenSC gives to PIV applications; it tells
// other applications of the same card (OpenPGP) apart.
const openSCPIV = "piv_II"

// twin tells whether t is the PIV card, seen through a module: Yubico's tells
// the serial, or 0 where there is none, OpenSC's only the reader, cut to the 64 bytes of
// CK_SLOT_INFO's slotDescription. Readers of another machine may have the same names.
func twin(t, card TokenInfo) bool {
	if !maybeTwin(t) || card.Scheme != SchemePIV {
		return false
	}
	if t.Serial != "" && t.Serial == card.Serial && t.Manufacturer != openSCPIV {
		return true
	}
	reader := card.Reader[:min(len(card.Reader), 64)]
	return t.Reader != "" && t.Reader == strings.TrimRight(reader, " ") && (t.Module == nil || t.Module.Server == "")
}

// maybeTwin tells whether t may be a PIV card seen through a module.
func maybeTwin(t TokenInfo) bool {
	return t.Scheme == SchemePKCS11 && (t.Manufacturer == openSCPIV || strings.HasPrefix(t.Manufacturer, "Yubico"))
}
