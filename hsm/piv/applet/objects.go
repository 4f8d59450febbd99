package applet

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// The data objects (SP 800-73-4 part 1 table 3; Yubico).
const (
	objectCHUID       = 0x5fc102
	objectPrinted     = 0x5fc109 // PIN-protected data, where ykman keeps the management key
	objectPivman      = 0x5fff00 // ykman's flags
	objectAttestation = 0x5fff01
)

// certificateObject returns the data object beside a slot's key.
func certificateObject(slot byte) uint32 {
	switch slot {
	case 0x9a:
		return 0x5fc105
	case 0x9c:
		return 0x5fc10a
	case 0x9d:
		return 0x5fc10b
	case 0x9e:
		return 0x5fc101
	case SlotAttestation:
		return objectAttestation
	}
	return 0x5fc10d + uint32(slot-0x82)
}

// Objects are a card's data objects. To write one the management key must have been
// proved.
type Objects struct{ c *channel }

func objectTag(id uint32) []byte {
	if id <= 0xff {
		return tlv(0x5c, []byte{byte(id)})
	}
	return tlv(0x5c, []byte{byte(id >> 16), byte(id >> 8), byte(id)})
}

// get reads a data object (GET DATA); nil if there is none.
func (o Objects) get(id uint32) ([]byte, error) {
	b, err := o.c.send(command{ins: insGetData, p1: 0x3f, p2: 0xff, data: objectTag(id)})
	if isStatus(err, swNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return unwrap(b, 0x53)
}

// put writes a data object (PUT DATA); empty content deletes it.
func (o Objects) put(id uint32, content []byte) error {
	wrapped := tlv(0x53, content)
	data := append(objectTag(id), wrapped...)
	defer clear(data) // data may be the management key
	defer clear(wrapped)
	_, err := o.c.send(command{ins: insPutData, p1: 0x3f, p2: 0xff, data: data})
	if StatusOf(err) != 0 && o.holds(id, content) {
		return nil
	}
	if isStatus(err, swNoSpace, swWrongLength) {
		return hint.With(fmt.Errorf("%w: the card has no room for %d bytes (%w)", hsm.ErrFull, len(content), err),
			"delete certificates that are not needed, or use one with a smaller key")
	}
	return err
}

// holds tells whether the card has the content in an object: some refuse to write what
// they have written.
func (o Objects) holds(id uint32, content []byte) bool {
	there, err := o.get(id)
	defer clear(there)
	return err == nil && bytes.Equal(there, content)
}

// maxCertificate bounds a decompressed certificate, in bytes.
const maxCertificate = 1 << 16

// Certificate reads the certificate beside a slot's key; nil if there is none.
func (o Objects) Certificate(slot byte) (*x509.Certificate, error) {
	content, err := o.get(certificateObject(slot))
	if err != nil || len(content) == 0 {
		return nil, err
	}
	return decodeCertificate(content)
}

// PutCertificate writes the certificate beside a slot's key.
func (o Objects) PutCertificate(slot byte, cert *x509.Certificate) error {
	return o.put(certificateObject(slot), encodeCertificate(cert))
}

// DeleteCertificate removes what is beside a slot's key.
func (o Objects) DeleteCertificate(slot byte) error { return o.put(certificateObject(slot), nil) }

// HasCertificate tells whether there is something beside a slot's key, readable or not.
func (o Objects) HasCertificate(slot byte) (bool, error) {
	content, err := o.get(certificateObject(slot))
	return len(content) > 0, err
}

// Attester returns the certificate of the key that signs attestations, in DER and not
// parsed. found tells whether the card has one, readable or not.
func (o Objects) Attester() (der []byte, found bool, err error) {
	content, err := o.get(objectAttestation)
	if err != nil || len(content) == 0 {
		return nil, false, err
	}
	fields, err := parseTLV(content)
	if err != nil {
		return nil, true, nonsense{err}
	}
	der, _ = fields.get(0x70)
	return der, true, nil
}

// guid reads the GUID of the card holder unique identifier (SP 800-73-4 part 1
// table 9) as 32 hex digits, "" if there is none or an empty one.
func (o Objects) guid() (string, error) {
	content, err := o.get(objectCHUID)
	if err != nil || len(content) == 0 {
		return "", err
	}
	fields, err := parseTLV(content)
	if err != nil {
		return "", err
	}
	guid, _ := fields.get(0x34)
	if len(guid) != 16 || [16]byte(guid) == ([16]byte{}) {
		return "", nil
	}
	return hex.EncodeToString(guid), nil
}

// newGUID writes a card holder unique identifier with a random GUID, and returns that.
func (o Objects) newGUID() (string, error) {
	guid := make([]byte, 16)
	rand.Read(guid) // rand.Read never fails
	// The FASC-N (SP 800-73-4 part 1 section 3.1.2) is a federal agency's number: all zero here.
	chuid := bytes.Join([][]byte{
		tlv(0x30, make([]byte, 25)), tlv(0x34, guid), tlv(0x35, []byte("20991231")), tlv(0x3e), tlv(0xfe),
	}, nil)
	return hex.EncodeToString(guid), o.put(objectCHUID, chuid)
}

// decodeCertificate reads a certificate object (SP 800-73-4 part 1 table 10): 70
// certificate, 71 01 if it is gzipped.
func decodeCertificate(content []byte) (*x509.Certificate, error) {
	fields, err := parseTLV(content)
	if err != nil {
		return nil, nonsense{err}
	}
	der, ok := fields.get(0x70)
	if !ok {
		return nil, nonsense{errTLV}
	}
	if info, _ := fields.get(0x71); len(info) == 1 && info[0]&1 != 0 {
		z, err := gzip.NewReader(bytes.NewReader(der))
		if err != nil {
			return nil, nonsense{err}
		}
		if der, err = io.ReadAll(io.LimitReader(z, maxCertificate)); err != nil {
			return nil, nonsense{err}
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nonsense{err}
	}
	return cert, nil
}

func encodeCertificate(cert *x509.Certificate) []byte {
	return append(append(tlv(0x70, cert.Raw), tlv(0x71, []byte{0})...), tlv(0xfe)...)
}
