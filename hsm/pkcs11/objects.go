//go:build cgo

package pkcs11

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
)

// entry is one slot's objects: those that share a CKA_ID, or belong together by
// their public key.
type entry struct {
	id      []byte
	label   string
	private []p11.ObjectHandle
	public  []p11.ObjectHandle
	certs   []certificate
	key     crypto.PublicKey
	// What the private object says, or the public one for local before login.
	local, extractable, always, seen bool
}

// certificate is a certificate object.
type certificate struct {
	handle p11.ObjectHandle
	id     []byte
	label  string
	cert   *x509.Certificate
}

// entries reads all slots. Before login tokens hide private keys (CKA_PRIVATE):
// then a public key, or a certificate that is no CA's, stands for its key.
func (d *device) entries(r *reader) []*entry {
	var all []*entry
	for _, o := range r.class(p11.CKO_PRIVATE_KEY) {
		all = append(all, r.privateEntry(o))
	}
	for _, o := range r.class(p11.CKO_PUBLIC_KEY) {
		all = r.addPublic(all, o)
	}
	for _, o := range r.class(p11.CKO_CERTIFICATE) {
		if c, ok := r.certificate(o); ok {
			all = addCertificate(all, c)
		}
	}
	visible := d.unlocked.Load() || d.info.PIN.NotNeeded
	for _, e := range all {
		if e.key == nil && len(e.certs) > 0 && (len(e.private) > 0 || (!visible && !e.certs[0].cert.IsCA)) {
			e.key = e.certs[0].cert.PublicKey
		}
	}
	return all
}

func (r *reader) privateEntry(o p11.ObjectHandle) *entry {
	a := r.attributes(o, p11.CKA_ID, p11.CKA_LABEL, p11.CKA_LOCAL, p11.CKA_SENSITIVE, p11.CKA_EXTRACTABLE, p11.CKA_ALWAYS_AUTHENTICATE)
	e := &entry{id: a[p11.CKA_ID], label: trim(string(a[p11.CKA_LABEL])), private: []p11.ObjectHandle{o}, seen: true}
	e.local, _ = flag(a[p11.CKA_LOCAL])
	e.always, _ = flag(a[p11.CKA_ALWAYS_AUTHENTICATE])
	sensitive, known := flag(a[p11.CKA_SENSITIVE])
	extractable, _ := flag(a[p11.CKA_EXTRACTABLE])
	e.extractable = extractable || (known && !sensitive)
	e.key = r.publicKey(o)
	return e
}

// addPublic puts a public key object to its private one, or by itself.
func (r *reader) addPublic(all []*entry, o p11.ObjectHandle) []*entry {
	a := r.attributes(o, p11.CKA_ID, p11.CKA_LABEL)
	id, label, key := a[p11.CKA_ID], trim(string(a[p11.CKA_LABEL])), r.publicKey(o)
	for _, e := range all {
		same := len(e.private) > 0 && bytes.Equal(e.id, id) && (len(id) > 0 || e.label == label)
		if same && (e.key == nil || key == nil || hsm.SameKey(e.key, key)) {
			e.public = append(e.public, o)
			if e.key == nil {
				e.key = key
			}
			return all
		}
	}
	e := &entry{id: id, label: label, public: []p11.ObjectHandle{o}, key: key}
	e.local, _ = flag(r.attributes(o, p11.CKA_LOCAL)[p11.CKA_LOCAL])
	return append(all, e)
}

func (r *reader) certificate(o p11.ObjectHandle) (certificate, bool) {
	a := r.attributes(o, p11.CKA_ID, p11.CKA_LABEL, p11.CKA_VALUE)
	cert, err := x509.ParseCertificate(a[p11.CKA_VALUE])
	if err != nil {
		return certificate{}, false // another CKA_CERTIFICATE_TYPE, or broken: nothing to match
	}
	return certificate{handle: o, id: a[p11.CKA_ID], label: trim(string(a[p11.CKA_LABEL])), cert: cert}, true
}

// addCertificate puts a certificate to its key, by the public key or else by
// the id, or by itself. The one to show comes first: for the key, the newest.
func addCertificate(all []*entry, c certificate) []*entry {
	by := func(fits func(*entry) bool) bool {
		i := slices.IndexFunc(all, fits)
		if i < 0 {
			return false
		}
		e := all[i]
		e.certs = append(e.certs, c)
		slices.SortStableFunc(e.certs, func(a, b certificate) int {
			if fa, fb := hsm.SameKey(e.key, a.cert.PublicKey), hsm.SameKey(e.key, b.cert.PublicKey); fa != fb {
				if fa {
					return -1
				}
				return 1
			}
			return b.cert.NotBefore.Compare(a.cert.NotBefore)
		})
		return true
	}
	sameID := func(e *entry) bool { return len(c.id) > 0 && bytes.Equal(e.id, c.id) }
	if by(func(e *entry) bool { return sameID(e) && hsm.SameKey(e.key, c.cert.PublicKey) }) ||
		by(func(e *entry) bool { return hsm.SameKey(e.key, c.cert.PublicKey) }) || by(sameID) {
		return all
	}
	return append(all, &entry{id: c.id, label: c.label, certs: []certificate{c}})
}

// slot shows an entry; visible tells whether private keys can be seen now.
func (e *entry) slot(token hsm.TokenInfo, visible bool) hsm.Slot {
	u := token.URI()
	u.Object, u.ID = e.label, e.id
	s := hsm.Slot{URI: u, ID: hex.EncodeToString(e.id), Label: e.label}
	if len(e.certs) > 0 {
		s.Certificate = e.certs[0].cert
	}
	missing := visible && len(e.private) == 0
	switch {
	case len(e.private) > 1:
		s.Problem = "several private keys share its id"
	case missing && len(e.public) > 0:
		s.Problem = "the private key is missing"
	case e.key == nil && len(e.private) > 0:
		s.Problem = "the public key of its private key cannot be read"
	}
	if e.key == nil || missing {
		return s
	}
	s.Key = &hsm.Key{Algorithm: hsm.AlgorithmOf(e.key), Public: e.key, Extractable: e.extractable}
	if e.local {
		s.Key.Origin = hsm.Generated
	} else if e.seen {
		s.Key.Origin = hsm.Imported
	}
	switch {
	case e.always:
		s.Key.PIN = hsm.PINAlways
	case token.PIN.NotNeeded:
		s.Key.PIN = hsm.PINNever
	case e.seen:
		s.Key.PIN = hsm.PINOnce
	}
	return s
}

// list reads all slots.
func (d *device) list(ctx context.Context) (entries []*entry, slots []hsm.Slot, err error) {
	err = d.reading(ctx, func(sh p11.SessionHandle) error {
		r := &reader{ctx: d.module.ctx, sh: sh}
		entries = d.entries(r)
		slots = make([]hsm.Slot, 0, len(entries))
		visible := d.unlocked.Load() || d.info.PIN.NotNeeded
		for _, e := range entries {
			slots = append(slots, e.slot(d.info, visible))
		}
		return r.err
	})
	if err != nil {
		return nil, nil, fault("list the keys", err)
	}
	return entries, slots, nil
}

// Slots implements [hsm.Token].
func (t *token) Slots(ctx context.Context, p hsm.Prompter) ([]hsm.Slot, error) {
	_, slots, err := t.list(ctx)
	if err != nil || len(slots) > 0 || p == nil || t.Unlocked() {
		return slots, err
	}
	if err := t.Unlock(ctx, p); err != nil { // it may hide public objects, too
		return nil, err
	}
	_, slots, err = t.list(ctx)
	return slots, err
}

// Slot implements [hsm.Token].
func (t *token) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	_, slot, err := t.lookup(ctx, u)
	return slot, err
}

// lookup finds the one slot that u names. A slot with a key goes before others,
// and where an id is given but no label fits, the id decides: some libraries
// change labels with the certificate.
func (t *token) lookup(ctx context.Context, u hsm.URI) (*entry, hsm.Slot, error) {
	entries, slots, err := t.list(ctx)
	if err != nil {
		return nil, hsm.Slot{}, err
	}
	fit := func(u hsm.URI) (found []int) {
		for i, s := range slots {
			if u.MatchSlot(s) {
				found = append(found, i)
			}
		}
		keys := slices.DeleteFunc(slices.Clone(found), func(i int) bool { return slots[i].Key == nil })
		if len(keys) > 0 {
			return keys
		}
		return found
	}
	found := fit(u)
	if len(found) == 0 && len(u.ID) > 0 {
		u.Object = ""
		found = fit(u)
	}
	switch len(found) {
	case 1:
		return entries[found[0]], slots[found[0]], nil
	case 0:
		err := fmt.Errorf("%s: %w", u, hsm.ErrNoKey)
		if !t.Unlocked() {
			err = hsm.WithHint(err, "the token is locked and may hide keys until its PIN is given")
		}
		return nil, hsm.Slot{}, err
	}
	return nil, hsm.Slot{}, hsm.WithHint(fmt.Errorf("%s: %w", u, hsm.ErrSeveralKeys), "name one by its object label or id")
}
