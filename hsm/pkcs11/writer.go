//go:build cgo

package pkcs11

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha1"
	"errors"
	"fmt"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// writer makes and removes objects in one read/write session, as [reader] reads them.
type writer struct {
	module *module
	sh     p11.SessionHandle
}

// create makes an object.
func (w writer) create(template []*p11.Attribute) error {
	_, err := w.module.ctx.CreateObject(w.sh, template)
	return err
}

// generate makes the pair, checks it and gives it its id; on error it removes
// the pair again.
func (w writer) generate(plan keyPlan) (_ *entry, err error) {
	mechanism := []*p11.Mechanism{p11.NewMechanism(plan.mechanism, nil)}
	public, private, err := w.module.ctx.GenerateKeyPair(w.sh, mechanism, plan.public, plan.private)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.destroy(private, public))
		}
	}()
	r := w.module.reader(w.sh)
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
	if err := w.name(id, private, public); err != nil {
		return nil, err
	}
	e := r.privateEntry(private)
	e.public, e.key = []p11.ObjectHandle{public}, key
	e.local = true // NSS's softokn reports false
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
		return hint.With(fmt.Errorf("%w: the token does not keep the private key to itself (sensitive %v, extractable "+
			"%v); the key was removed", hsm.ErrUnsupported, sensitive, extractable || !known),
			"use another token")
	}
	return nil
}

// name gives both objects their final id. A token that does not let ids
// change keeps the first one, as long as both objects have the same. The private object
// goes first: if the program is killed between the two, the public one tells the other's id.
func (w writer) name(id []byte, private, public p11.ObjectHandle) error {
	want := []*p11.Attribute{p11.NewAttribute(p11.CKA_ID, id)}
	if err := w.module.ctx.SetAttributeValue(w.sh, private, want); err != nil {
		if lost(err) {
			return err
		}
		return nil
	}
	return w.module.ctx.SetAttributeValue(w.sh, public, want)
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
func (w writer) destroy(objects ...p11.ObjectHandle) error {
	var errs []error
	for _, o := range objects {
		if err := w.module.ctx.DestroyObject(w.sh, o); !is(err, p11.CKR_OBJECT_HANDLE_INVALID) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
