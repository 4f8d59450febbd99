package present

import (
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
)

// PINPolicy explains a PIN policy in a clause.
func PINPolicy(p hsm.PINPolicy) string {
	switch p {
	case hsm.PINNever:
		return "never asked: whoever holds the token can use the key"
	case hsm.PINOnce:
		return "asked once, until the token is locked or unplugged"
	case hsm.PINAlways:
		return "asked for every single signature"
	}
	return "the token's own choice, mostly once"
}

// TouchPolicy explains a touch policy in a clause.
func TouchPolicy(p hsm.TouchPolicy) string {
	switch p {
	case hsm.TouchNever:
		return "no touch: programs on this machine can sign unseen"
	case hsm.TouchCached:
		return "one touch counts for 15 seconds"
	case hsm.TouchAlways:
		return "a touch for every single signature"
	}
	return "the token's own choice, mostly never"
}

// Algorithm explains an algorithm in a clause.
func Algorithm(a hsm.Algorithm) string {
	switch a {
	case hsm.ECDSAP256:
		return "every token has it; fast"
	case hsm.ECDSAP384:
		return "stronger, a little slower"
	case hsm.RSA2048:
		return "no curves needed; slow to make"
	case hsm.RSA3072:
		return "few tokens; YubiKey from 5.7"
	case hsm.RSA4096:
		return "few tokens, slow; YubiKey 5.7"
	case hsm.Ed25519:
		return "few tokens; YubiKey from 5.7"
	}
	return ""
}

// nothing is known.
func Lacks(t hsm.TokenInfo, a hsm.Algorithm) string {
	if t.Scheme == hsm.SchemePIV && newerPIV(a) && olderThan57(t.Firmware) {
		return "needs firmware 5.7 or newer"
	}
	return ""
}

// newerPIV tells whether YubiKeys learnt a with firmware 5.7.
func newerPIV(a hsm.Algorithm) bool {
	return a == hsm.RSA3072 || a == hsm.RSA4096 || a == hsm.Ed25519
}

// olderThan57 tells whether a YubiKey's firmware is known to be older than 5.7.
func olderThan57(firmware string) bool {
	parts := strings.SplitN(firmware, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major < 5 || major == 5 && minor < 7)
}
