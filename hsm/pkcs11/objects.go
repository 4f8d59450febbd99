//go:build cgo

package pkcs11

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"time"

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
	seenIn  look
	// What the private object says, or the public one for local before login.
	local, extractable, always, seen bool
	// apart tells that the private object has the id that both were to have, see [writer.name].
	apart bool
}

// look tells in which session something was read, and when.
type look struct {
	session p11.SessionHandle
	at      time.Time
}

// good tells that what was read still holds for the same session: nobody swaps
// tokens faster.
func (l look) good(session p11.SessionHandle) bool {
	return l.session == session && time.Since(l.at) < justSeen
}

// certificate is a certificate object.
type certificate struct {
	handle p11.ObjectHandle
	id     []byte
	label  string
	cert   *x509.Certificate
}

// shelf are the slots as they are read, with what finds them again: tokens hold
// thousands of objects.
type shelf struct {
	all     []*entry
	byPlace map[string][]*entry // places with more than a certificate
	byKey   map[string][]*entry // nil until there is a certificate
	byID    map[string]*entry   // the first
}

// place is what a key pair shares: the id, or the label where there is none.
func place(id []byte, label string) string {
	if len(id) > 0 {
		return "id " + string(id)
	}
	return "label " + label
}

// nameOf is a map key for a public key, "" for none.
func nameOf(key crypto.PublicKey) string {
	if key == nil {
		return ""
	}
	name, err := hsm.Fingerprint(key)
	if err != nil {
		return ""
	}
	return name
}

func (s *shelf) add(e *entry) {
	s.all = append(s.all, e)
	if len(e.private) > 0 {
		s.byPlace[place(e.id, e.label)] = append(s.byPlace[place(e.id, e.label)], e)
	}
	if len(e.id) > 0 && s.byID[string(e.id)] == nil {
		s.byID[string(e.id)] = e
	}
	s.known(e)
}

// known notes an entry whose key has become known.
func (s *shelf) known(e *entry) {
	if s.byKey == nil {
		return
	}
	if name := nameOf(e.key); name != "" {
		s.byKey[name] = append(s.byKey[name], e)
	}
}

// withKey returns the entries with a key.
func (s *shelf) withKey(key crypto.PublicKey) []*entry {
	if s.byKey == nil {
		s.byKey = map[string][]*entry{}
		for _, e := range s.all {
			s.known(e)
		}
	}
	return s.byKey[nameOf(key)]
}

// scope says which objects to look at.
type scope struct {
	id   []byte // CKA_ID of the objects; nil: any
	keys bool   // no certificates, if there are keys
}

// entries reads slots; visible tells whether private keys can be seen now. Before login
// tokens hide them (CKA_PRIVATE): then a public key, or a certificate that is no CA's,
// stands for its key.
func (r *reader) entries(in scope, visible bool) []*entry {
	if in.keys && in.id != nil && !visible {
		if e := r.onlyPublic(in.id); e != nil {
			return []*entry{e}
		}
	}
	s := &shelf{byPlace: map[string][]*entry{}, byID: map[string]*entry{}}
	for _, o := range r.class(p11.CKO_PRIVATE_KEY, in.id) {
		s.add(r.privateEntry(o))
	}
	for _, o := range r.class(p11.CKO_PUBLIC_KEY, in.id) {
		s.addPublic(r, o)
	}
	told := len(s.all) > 0 && !slices.ContainsFunc(s.all, func(e *entry) bool { return e.key == nil })
	if !in.keys || !told {
		for _, o := range r.class(p11.CKO_CERTIFICATE, in.id) {
			if c, ok := r.certificate(o); ok {
				s.addCertificate(c)
			}
		}
	}
	for _, e := range s.all {
		if e.key == nil && len(e.certs) > 0 && (len(e.private) > 0 || (!visible && !e.certs[0].cert.IsCA)) {
			e.key = e.certs[0].cert.PublicKey
		}
	}
	s.rejoin()
	return s.all
}

// rejoin finds the pairs that a killed program made and had not yet given the same id: the
// private object has the one that comes of the public key.
func (s *shelf) rejoin() {
	for _, e := range slices.Clone(s.all) {
		if len(e.private)+len(e.certs) > 0 || e.key == nil {
			continue
		}
		id, err := keyID(e.key)
		if err != nil {
			continue // objects of a kind that nothing here makes
		}
		i := slices.IndexFunc(s.byPlace[place(id, e.label)], func(have *entry) bool {
			return len(have.private) == 1 && len(have.public)+len(have.certs) == 0 && have.label == e.label && have.key == nil
		})
		if i < 0 {
			continue
		}
		other := s.byPlace[place(id, e.label)][i]
		e.private, e.apart = other.private, true
		s.all = slices.DeleteFunc(s.all, func(have *entry) bool { return have == other })
	}
}

func (r *reader) privateEntry(o p11.ObjectHandle) *entry {
	a := r.attributes(o, append([]uint{p11.CKA_ID, p11.CKA_LABEL, p11.CKA_LOCAL, p11.CKA_SENSITIVE, p11.CKA_EXTRACTABLE,
		p11.CKA_ALWAYS_AUTHENTICATE}, publicParts...)...)
	e := &entry{id: a[p11.CKA_ID], label: trim(string(a[p11.CKA_LABEL])), private: []p11.ObjectHandle{o}, seen: true,
		seenIn: look{r.sh, time.Now()}}
	e.local, _ = flag(a[p11.CKA_LOCAL])
	e.always, _ = flag(a[p11.CKA_ALWAYS_AUTHENTICATE])
	sensitive, known := flag(a[p11.CKA_SENSITIVE])
	extractable, _ := flag(a[p11.CKA_EXTRACTABLE])
	e.extractable = extractable || (known && !sensitive)
	e.key = publicKey(a)
	return e
}

// onlyPublic is the one public key with an id, nil if there is none, or several:
// before login it tells which key that is, and one search of a library that looks
// at every object for each is spared.
func (r *reader) onlyPublic(id []byte) *entry {
	found := r.class(p11.CKO_PUBLIC_KEY, id)
	if len(found) != 1 {
		return nil
	}
	e := r.publicEntry(found[0])
	if e.key == nil {
		return nil
	}
	return e
}

func (r *reader) publicEntry(o p11.ObjectHandle) *entry {
	a := r.attributes(o, append([]uint{p11.CKA_ID, p11.CKA_LABEL, p11.CKA_LOCAL}, publicParts...)...)
	e := &entry{id: a[p11.CKA_ID], label: trim(string(a[p11.CKA_LABEL])), public: []p11.ObjectHandle{o}, key: publicKey(a),
		seenIn: look{r.sh, time.Now()}}
	e.local, _ = flag(a[p11.CKA_LOCAL])
	return e
}

// addPublic puts a public key object to its private one, or by itself.
func (s *shelf) addPublic(r *reader, o p11.ObjectHandle) {
	e := r.publicEntry(o)
	beside := s.byPlace[place(e.id, e.label)]
	if same := slices.DeleteFunc(slices.Clone(beside),
		func(have *entry) bool { return have.label != e.label }); len(same) > 0 {
		beside = same // objects that share an id are told apart by label
	}
	for _, have := range beside {
		if have.key == nil || e.key == nil || hsm.SameKey(have.key, e.key) {
			have.public = append(have.public, o)
			if have.key == nil {
				have.key = e.key
				s.known(have)
			}
			return
		}
	}
	s.add(e)
}

func (r *reader) certificate(o p11.ObjectHandle) (certificate, bool) {
	a := r.attributes(o, p11.CKA_ID, p11.CKA_LABEL, p11.CKA_VALUE)
	cert, err := x509.ParseCertificate(a[p11.CKA_VALUE])
	if err != nil {
		return certificate{}, false // another CKA_CERTIFICATE_TYPE, or broken: nothing to match
	}
	return certificate{handle: o, id: a[p11.CKA_ID], label: trim(string(a[p11.CKA_LABEL])), cert: cert}, true
}

// addCertificate puts a certificate to its key, by the public key (and of
// several by the id too) or else by the id, or by itself.
func (s *shelf) addCertificate(c certificate) {
	var e *entry
	if same := s.withKey(c.cert.PublicKey); len(same) > 0 {
		e = same[0]
		if i := slices.IndexFunc(same, func(e *entry) bool { return len(c.id) > 0 && bytes.Equal(e.id, c.id) }); i >= 0 {
			e = same[i]
		}
	} else if len(c.id) > 0 {
		e = s.byID[string(c.id)]
	}
	if e == nil {
		s.add(&entry{id: c.id, label: c.label, certs: []certificate{c}})
		return
	}
	e.certs = append(e.certs, c)
	e.sortCertificates()
}

// sortCertificates puts the one to show first: for the key, the newest.
func (e *entry) sortCertificates() {
	slices.SortStableFunc(e.certs, func(a, b certificate) int {
		if fa, fb := hsm.SameKey(e.key, a.cert.PublicKey), hsm.SameKey(e.key, b.cert.PublicKey); fa != fb {
			if fa {
				return -1
			}
			return 1
		}
		return b.cert.NotBefore.Compare(a.cert.NotBefore)
	})
}

// slot shows an entry; visible tells whether private keys can be seen now.
func (e *entry) slot(token hsm.TokenInfo, visible bool) hsm.Slot {
	u := token.URI()
	u.Object, u.ID = e.label, e.id
	s := hsm.Slot{URI: u, ID: hex.EncodeToString(e.id), Label: e.label}
	if len(e.certs) > 0 {
		s.Certificate = e.certs[0].cert
		for _, c := range e.certs[1:] {
			if hsm.SameKey(c.cert.PublicKey, s.Certificate.PublicKey) {
				s.Older = append(s.Older, c.cert)
			}
		}
	}
	missing := visible && len(e.private) == 0
	switch {
	case len(e.private) > 1:
		s.Problem = "several private keys share its id"
	case e.apart:
		s.Half, s.Problem = hsm.HalfApart, "its private key has another id"
	case missing && len(e.public) > 0:
		s.Half, s.Problem = hsm.HalfPublic, "the private key is missing"
	case e.key == nil && len(e.private) > 0:
		s.Half, s.Problem = hsm.HalfPrivate, "the public key of its private key cannot be read"
	case missing && s.Certificate != nil && !s.Certificate.IsCA:
		s.Half = hsm.HalfCertificate
	}
	if e.key == nil || missing || e.apart {
		return s
	}
	if s.Certificate != nil && !hsm.SameKey(e.key, s.Certificate.PublicKey) {
		s.Half = hsm.HalfOther
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
