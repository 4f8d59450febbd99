package piv

import (
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// nonsense is an answer that does not mean anything: the card is there, but
// what it says is malformed.
type nonsense struct{ err error }

func (n nonsense) Error() string { return "the card's answer makes no sense: " + n.err.Error() }
func (n nonsense) Unwrap() error { return n.err }

func isNonsense(err error) bool {
	var n nonsense
	return errors.As(err, &n) || errors.Is(err, errTLV)
}

// statusOf returns the card's status word in err, 0 if there is none.
func statusOf(err error) status {
	var s status
	errors.As(err, &s)
	return s
}

func objectTag(id uint32) []byte {
	if id <= 0xff {
		return tlv(0x5c, []byte{byte(id)})
	}
	return tlv(0x5c, []byte{byte(id >> 16), byte(id >> 8), byte(id)})
}

// getObject reads a data object (GET DATA); nil if there is none.
func (s *session) getObject(id uint32) ([]byte, error) {
	b, err := s.send(command{ins: insGetData, p1: 0x3f, p2: 0xff, data: objectTag(id)})
	if isStatus(err, swNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return unwrap(b, 0x53)
}

// putObject writes a data object (PUT DATA); empty content deletes it. The
// management key must have been proved.
func (s *session) putObject(id uint32, content []byte) error {
	wrapped := tlv(0x53, content)
	data := append(objectTag(id), wrapped...)
	defer clear(data) // it may be the management key
	defer clear(wrapped)
	_, err := s.send(command{ins: insPutData, p1: 0x3f, p2: 0xff, data: data})
	if isStatus(err, swNoSpace, swWrongLength) {
		return hint.With(fmt.Errorf("the card has no room for %d bytes: %w", len(content), err), "delete certificates that are not needed, or use one with a smaller key")
	}
	return err
}

// maxCertificate bounds a decompressed certificate, in bytes.
const maxCertificate = 1 << 16

// certificate reads the certificate beside a slot's key; nil if there is none.
func (s *session) certificate(slot byte) (*x509.Certificate, error) {
	content, err := s.getObject(certificateObject(slot))
	if err != nil || len(content) == 0 {
		return nil, err
	}
	return decodeCertificate(content)
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
