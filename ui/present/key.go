package present

import "github.com/kubehsm/kubehsm/hsm"

// PINPolicy explains a PIN policy in a clause.
func PINPolicy(p hsm.PINPolicy) string {
	switch p {
	case hsm.PINNever:
		return "never asked: whoever holds the token can use the key"
	case hsm.PINOnce:
		return "asked once, until the token is locked or unplugged"
	case hsm.PINAlways:
		return "asked for every signature"
	}
	return "the token's default: usually once"
}

// TouchPolicy explains a touch policy in a clause.
func TouchPolicy(p hsm.TouchPolicy) string {
	switch p {
	case hsm.TouchNever:
		return "no touch: programs on this machine can sign unseen"
	case hsm.TouchCached:
		return "one touch counts for 15 seconds"
	case hsm.TouchAlways:
		return "a touch for every signature"
	}
	return "the token's default: usually never"
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
