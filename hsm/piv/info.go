package piv

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
)

// describe reads the token's description.
func describe(s *applet.Session, r pcsc.Reader) (hsm.TokenInfo, error) {
	info := hsm.TokenInfo{
		Scheme: hsm.SchemePIV, Serial: s.ID.Serial, Firmware: s.ID.Version.String(), Reader: r.Name, Initialized: true,
	}
	info.Manufacturer, info.Model = product(r, s.ID.Version)
	info.Can = abilities(s.ID.Version)
	var err error
	info.PIN, err = s.PINs.State()
	return info, err
}

// abilities are what a card can do: all that does not need firmware that the card
// is known to lack.
func abilities(v applet.Version) hsm.Abilities {
	old := func(major, minor byte) bool { return v.Known() && !v.Since(major, minor) }
	can := hsm.Abilities{
		Generate: true, Store: true, DeleteCertificate: true, Details: true, ChangePIN: true, SetRetries: true, ManagementKey: true,
		Reset: v.Known(), Policies: !old(4, 0), Attest: !old(4, 3), Delete: !old(5, 7), Move: !old(5, 7),
	}
	if old(5, 7) {
		can.Lack = hsm.Lack{
			Algorithms: strings.Join([]string{string(hsm.RSA3072), string(hsm.RSA4096), string(hsm.Ed25519)}, " "),
			Why:        "needs firmware 5.7 or newer",
		}
	}
	return can
}

// product tells maker and model by the reader's name, as a token with a plug
// is a reader of its own, and by what the card says on reset.
func product(r pcsc.Reader, v applet.Version) (manufacturer, model string) {
	said := strings.ToLower(r.Name + " " + string(r.ATR))
	switch {
	case strings.Contains(said, "yubi"):
		if v.Known() {
			return "Yubico", fmt.Sprintf("YubiKey %d", v[0])
		}
		return "Yubico", "YubiKey"
	case strings.Contains(said, "canokey"):
		return "CanoKeys", "CanoKey"
	case strings.Contains(said, "nitrokey"):
		return "Nitrokey", "Nitrokey"
	}
	return "", "PIV card"
}
