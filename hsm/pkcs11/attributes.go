//go:build cgo

package pkcs11

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"math/big"

	p11 "github.com/miekg/pkcs11"
)

// What miekg/pkcs11 has no names for (PKCS#11 v2.40 and v3.0).
const (
	ckaPublicKeyInfo      = 0x129
	ckkECEdwards          = 0x40
	ckmECEdwardsKeyPair   = 0x1055
	ckmEdDSA              = 0x1057
	unavailableAttribute  = ^uint(0)
	objectsAtATime        = 128
	maxObjects            = 100_000
	uncompressedPointByte = 4
)

// Curves as CKA_EC_PARAMS names them: an OID, for Ed25519 also a name in a
// PrintableString (PKCS#11 v3.0, as SoftHSM2 has it) or the curve's older OID.
var (
	paramsP256       = []byte{0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07}
	paramsP384       = []byte{0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22}
	paramsP521       = []byte{0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23}
	paramsEd25519    = append([]byte{0x13, 0x0c}, "edwards25519"...)
	paramsEd25519OID = []byte{0x06, 0x03, 0x2b, 0x65, 0x70}
)

// reader reads objects in one session. The first error that says that the
// session is gone is kept in err and ends the reading; an attribute that the
// token does not have or give is just missing.
type reader struct {
	ctx *p11.Ctx
	lib *library
	sh  p11.SessionHandle
	err error
}

func (m *module) reader(sh p11.SessionHandle) *reader { return &reader{ctx: m.ctx, lib: m.lib, sh: sh} }

// find returns the handles of the objects that match, in the token's order.
func (r *reader) find(template ...*p11.Attribute) []p11.ObjectHandle {
	if r.err != nil {
		return nil
	}
	if r.err = r.ctx.FindObjectsInit(r.sh, template); r.err != nil {
		return nil
	}
	var all []p11.ObjectHandle
	for len(all) < maxObjects {
		some, err := r.lib.found(r.ctx, r.sh)
		if err != nil {
			r.err = err
			break
		}
		if len(some) == 0 {
			break
		}
		all = append(all, some...)
	}
	if err := r.ctx.FindObjectsFinal(r.sh); err != nil && r.err == nil {
		r.err = err
	}
	return all
}

// class returns the token's objects of a class, those with the id if it is not
// nil.
func (r *reader) class(class uint, id []byte) []p11.ObjectHandle {
	template := []*p11.Attribute{p11.NewAttribute(p11.CKA_CLASS, class), p11.NewAttribute(p11.CKA_TOKEN, true)}
	if id != nil {
		template = append(template, p11.NewAttribute(p11.CKA_ID, id))
	}
	return r.find(template...)
}

// attributes reads several attributes, at once where the library lets it.
func (r *reader) attributes(o p11.ObjectHandle, types ...uint) map[uint][]byte {
	if r.err != nil {
		return map[uint][]byte{}
	}
	values, rest, err := r.lib.attributes(r.ctx, r.sh, o, types)
	if values == nil {
		values = map[uint][]byte{}
	}
	if lost(err) {
		r.err, rest = err, nil
	}
	for _, t := range rest {
		value, err := r.lib.attribute(r.ctx, r.sh, o, t)
		if lost(err) {
			r.err = err
			break
		}
		if err == nil {
			values[t] = value
		}
	}
	return values
}

// number reads a CK_ULONG.
func number(b []byte) uint {
	switch len(b) {
	case 8:
		return uint(binary.NativeEndian.Uint64(b))
	case 4:
		return uint(binary.NativeEndian.Uint32(b))
	}
	return unavailableAttribute
}

// flag reads a CK_BBOOL; known is false if the token did not tell.
func flag(b []byte) (set, known bool) {
	if len(b) != 1 {
		return false, false
	}
	return b[0] != 0, true
}

// publicParts are the attributes that tell a public key; an object has some of them.
var publicParts = []uint{p11.CKA_KEY_TYPE, p11.CKA_MODULUS, p11.CKA_PUBLIC_EXPONENT, p11.CKA_EC_PARAMS,
	p11.CKA_EC_POINT, ckaPublicKeyInfo}

// publicKey is the public key that a public or private key object tells, nil if
// it does not or is of an unknown kind.
func publicKey(a map[uint][]byte) crypto.PublicKey {
	switch number(a[p11.CKA_KEY_TYPE]) {
	case p11.CKK_RSA:
		if key := rsaKey(a[p11.CKA_MODULUS], a[p11.CKA_PUBLIC_EXPONENT]); key != nil {
			return key
		}
	case p11.CKK_EC, ckkECEdwards:
		if key := curveKey(a[p11.CKA_EC_PARAMS], a[p11.CKA_EC_POINT]); key != nil {
			return key
		}
	default:
		return nil
	}
	if spki := a[ckaPublicKeyInfo]; len(spki) > 0 {
		if key, err := x509.ParsePKIXPublicKey(spki); err == nil {
			return key
		}
	}
	return nil
}

func (r *reader) publicKey(o p11.ObjectHandle) crypto.PublicKey {
	return publicKey(r.attributes(o, publicParts...))
}

func rsaKey(modulus, exponent []byte) crypto.PublicKey {
	n, e := new(big.Int).SetBytes(modulus), new(big.Int).SetBytes(exponent)
	if n.BitLen() < 512 || n.BitLen() > 16384 || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
		return nil
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}
}

// curveKey decodes CKA_EC_POINT: an OCTET STRING by the standard, the bare
// point in some libraries.
func curveKey(params, point []byte) crypto.PublicKey {
	var curve elliptic.Curve
	switch {
	case bytes.Equal(params, paramsP256):
		curve = elliptic.P256()
	case bytes.Equal(params, paramsP384):
		curve = elliptic.P384()
	case bytes.Equal(params, paramsP521):
		curve = elliptic.P521()
	case bytes.Equal(params, paramsEd25519), bytes.Equal(params, paramsEd25519OID):
		if p := unwrap(point, ed25519.PublicKeySize); p != nil {
			return ed25519.PublicKey(p)
		}
		return nil
	default:
		return nil
	}
	p := unwrap(point, 1+2*((curve.Params().BitSize+7)/8))
	if p == nil || p[0] != uncompressedPointByte {
		return nil
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, p)
	if err != nil {
		return nil
	}
	return key
}

// unwrap returns the n bytes of a point, in an OCTET STRING or bare.
func unwrap(point []byte, n int) []byte {
	if len(point) == n {
		return point
	}
	var inner []byte
	if rest, err := asn1.Unmarshal(point, &inner); err == nil && len(rest) == 0 && len(inner) == n {
		return inner
	}
	return nil
}
