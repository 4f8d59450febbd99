//go:build cgo

package pkcs11

import (
	"crypto/rand"
	"crypto/sha1"
	"fmt"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
)

// keyPlan is what C_GenerateKeyPair gets.
type keyPlan struct {
	algorithm       hsm.Algorithm
	mechanism       uint
	public, private []*p11.Attribute
}

func planKey(o hsm.GenerateOptions) (keyPlan, error) {
	a, err := hsm.ParseAlgorithm(string(o.Algorithm))
	if err != nil {
		return keyPlan{}, err
	}
	if o.Touch == hsm.TouchCached || o.Touch == hsm.TouchAlways {
		return keyPlan{}, fmt.Errorf("a touch policy through PKCS#11: %w", hsm.ErrUnsupported)
	}
	if o.PIN == hsm.PINNever {
		return keyPlan{}, fmt.Errorf("a key without a PIN through PKCS#11: %w", hsm.ErrUnsupported)
	}
	// A place of its own until the public key is known.
	id := make([]byte, sha1.Size)
	if _, err := rand.Read(id); err != nil {
		return keyPlan{}, err
	}
	both := []*p11.Attribute{
		p11.NewAttribute(p11.CKA_TOKEN, true), p11.NewAttribute(p11.CKA_ID, id), p11.NewAttribute(p11.CKA_LABEL, o.Label),
	}
	plan := keyPlan{algorithm: a}
	plan.public = append(append(plan.public, both...), p11.NewAttribute(p11.CKA_VERIFY, true),
		p11.NewAttribute(p11.CKA_PRIVATE, false))
	plan.private = append(append(plan.private, both...),
		p11.NewAttribute(p11.CKA_PRIVATE, true), p11.NewAttribute(p11.CKA_SENSITIVE, true),
		p11.NewAttribute(p11.CKA_EXTRACTABLE, false), p11.NewAttribute(p11.CKA_SIGN, true))
	if o.PIN == hsm.PINAlways {
		plan.private = append(plan.private, p11.NewAttribute(p11.CKA_ALWAYS_AUTHENTICATE, true))
	}
	switch a {
	case hsm.ECDSAP256:
		plan.curve(p11.CKM_EC_KEY_PAIR_GEN, p11.CKK_EC, paramsP256)
	case hsm.ECDSAP384:
		plan.curve(p11.CKM_EC_KEY_PAIR_GEN, p11.CKK_EC, paramsP384)
	case hsm.Ed25519:
		plan.curve(ckmECEdwardsKeyPair, ckkECEdwards, paramsEd25519)
	default:
		plan.mechanism = p11.CKM_RSA_PKCS_KEY_PAIR_GEN
		plan.public = append(plan.public, p11.NewAttribute(p11.CKA_KEY_TYPE, p11.CKK_RSA),
			p11.NewAttribute(p11.CKA_MODULUS_BITS, a.RSABits()), p11.NewAttribute(p11.CKA_PUBLIC_EXPONENT, []byte{1, 0, 1}))
		plan.private = append(plan.private, p11.NewAttribute(p11.CKA_KEY_TYPE, p11.CKK_RSA))
	}
	return plan, nil
}

func (k *keyPlan) curve(mechanism uint, keyType int, params []byte) {
	k.mechanism = mechanism
	k.public = append(k.public, p11.NewAttribute(p11.CKA_KEY_TYPE, keyType), p11.NewAttribute(p11.CKA_EC_PARAMS, params))
	k.private = append(k.private, p11.NewAttribute(p11.CKA_KEY_TYPE, keyType))
}
