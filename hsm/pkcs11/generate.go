//go:build cgo

package pkcs11

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"errors"
	"fmt"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Generate implements [hsm.Token]. The key's CKA_ID is the SHA-1 of its EC
// point, modulus or Ed25519 key, as most tools make it. A token whose new key
// does not read back as sensitive and not extractable is refused, and the key
// removed.
func (t *token) Generate(ctx context.Context, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	plan, err := planKey(o)
	if err != nil {
		return hsm.Slot{}, err
	}
	if err := t.Unlock(ctx, p); err != nil {
		return hsm.Slot{}, err
	}
	var made *entry
	var info hsm.TokenInfo
	err = t.writing(ctx, func(sh p11.SessionHandle) error {
		info = t.info
		made, err = t.generate(sh, plan)
		return err
	})
	if err != nil {
		return hsm.Slot{}, fault("generate a key", err)
	}
	return made.slot(info, true), nil
}

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
	plan.public = append(append(plan.public, both...), p11.NewAttribute(p11.CKA_VERIFY, true), p11.NewAttribute(p11.CKA_PRIVATE, false))
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

// generate makes the pair, checks it and gives it its id; on error it removes
// the pair again.
func (t *token) generate(sh p11.SessionHandle, plan keyPlan) (_ *entry, err error) {
	c := t.module.ctx
	public, private, err := c.GenerateKeyPair(sh, []*p11.Mechanism{p11.NewMechanism(plan.mechanism, nil)}, plan.public, plan.private)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.destroy(sh, private, public))
		}
	}()
	r := t.module.reader(sh)
	key := r.publicKey(public)
	if r.err != nil {
		return nil, r.err
	}
	if key == nil || hsm.AlgorithmOf(key) != plan.algorithm {
		return nil, fmt.Errorf("%w: the token made no %s key", hsm.ErrModule, plan.algorithm)
	}
	if err := r.guarded(private); err != nil {
		return nil, err
	}
	id, err := keyID(key)
	if err != nil {
		return nil, err
	}
	if err := t.identify(sh, id, private, public); err != nil {
		return nil, err
	}
	e := r.privateEntry(private)
	e.public, e.key = []p11.ObjectHandle{public}, key
	return e, r.err
}

// guarded reads the private key's attributes back: a token may accept a
// template and do something else.
func (r *reader) guarded(o p11.ObjectHandle) error {
	a := r.attributes(o, p11.CKA_SENSITIVE, p11.CKA_EXTRACTABLE)
	if r.err != nil {
		return r.err
	}
	sensitive, _ := flag(a[p11.CKA_SENSITIVE])
	extractable, known := flag(a[p11.CKA_EXTRACTABLE])
	if !sensitive || extractable || !known {
		return hint.With(fmt.Errorf("%w: the token does not keep the private key to itself (sensitive %v, extractable %v); the key was removed", hsm.ErrUnsupported, sensitive, extractable || !known), "use another token")
	}
	return nil
}

// identify gives both objects their final id. A token that does not let ids
// change keeps the first one, as long as both objects have the same.
func (t *token) identify(sh p11.SessionHandle, id []byte, private, public p11.ObjectHandle) error {
	want := []*p11.Attribute{p11.NewAttribute(p11.CKA_ID, id)}
	if err := t.module.ctx.SetAttributeValue(sh, private, want); err != nil {
		if lost(err) {
			return err
		}
		return nil
	}
	return t.module.ctx.SetAttributeValue(sh, public, want)
}

// keyID is the SHA-1 of the bare public key.
func keyID(pub crypto.PublicKey) ([]byte, error) {
	var raw []byte
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			return nil, err
		}
		raw = point
	case *rsa.PublicKey:
		raw = k.N.Bytes()
	case ed25519.PublicKey:
		raw = k
	default:
		return nil, fmt.Errorf("an id for %T: %w", pub, hsm.ErrUnsupported)
	}
	sum := sha1.Sum(raw)
	return sum[:], nil
}

// destroy removes objects, all that it can.
func (t *token) destroy(sh p11.SessionHandle, objects ...p11.ObjectHandle) error {
	var errs []error
	for _, o := range objects {
		if err := t.module.ctx.DestroyObject(sh, o); !is(err, p11.CKR_OBJECT_HANDLE_INVALID) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Delete implements [hsm.Token]. The private key goes first.
func (t *token) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	if err := t.Unlock(ctx, p); err != nil {
		return err
	}
	e, _, err := t.lookup(ctx, u)
	if err != nil {
		return err
	}
	objects := append(append([]p11.ObjectHandle{}, e.private...), e.public...)
	for _, c := range e.certs {
		objects = append(objects, c.handle)
	}
	err = t.writing(ctx, func(sh p11.SessionHandle) error { return t.destroy(sh, objects...) })
	return fault("delete the key", err)
}
