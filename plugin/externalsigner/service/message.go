package service

import (
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/VictoriaMetrics/easyproto"
)

// The messages of ../v1alpha1/externalsigner.proto are read and written here by
// the numbers of their fields, and not by the code that is generated of them:
// that would link the protobuf and gRPC modules, which take a quarter of a
// millisecond to set up, into a program that kubectl starts for every command.
// Tests compare the two.

// The numbers of fields.
const (
	fieldVersion       = 1 // of all requests and of VersionResponse
	fieldConfiguration = 3
	fieldDigest        = 4
	fieldPKCS1         = 5
	fieldPSS           = 6
	fieldECDSA         = 7
	fieldEd25519       = 8

	fieldAnswer = 1 // CertificateResponse.certificate, SignatureResponse.signature
	fieldPrompt = 2
)

// signerOpts is the oneof of that name.
type signerOpts struct {
	field uint32 // 0: none
	hash  uint32
	salt  int32
}

// message is any of the requests. Cluster is not read: nothing depends on it.
type message struct {
	version       string
	configuration map[string]string
	digest        []byte
	opts          signerOpts
}

// field is one field of a message.
type field = easyproto.FieldContext

// fields calls f with each field of a message.
func fields(b []byte, f func(*field) error) error {
	var c field
	for len(b) > 0 {
		var err error
		if b, err = c.NextField(b); err != nil {
			return err
		}
		if c.FieldNum == 0 {
			return errors.New("a field has the number 0")
		}
		if err := f(&c); err != nil {
			return fmt.Errorf("field %d: %w", c.FieldNum, err)
		}
	}
	return nil
}

var errType = errors.New("it is of another type")

// text reads a string.
func text(c *field, to *string) error {
	b, ok := c.Bytes()
	switch {
	case !ok:
		return errType
	case !utf8.Valid(b):
		return errors.New("it is not UTF-8")
	}
	*to = string(b)
	return nil
}

// parse reads a request. Fields that are not known are passed over, as protobuf
// has it.
func parse(b []byte) (m message, err error) {
	m.configuration = map[string]string{}
	err = fields(b, func(c *field) error {
		switch c.FieldNum {
		case fieldVersion:
			return text(c, &m.version)
		case fieldConfiguration:
			return m.configure(c)
		case fieldDigest:
			digest, ok := c.Bytes()
			if !ok {
				return errType
			}
			m.digest = digest
		case fieldPKCS1, fieldPSS, fieldECDSA, fieldEd25519:
			return m.opts.read(c)
		}
		return nil
	})
	return m, err
}

// configure reads an entry of the configuration.
func (m *message) configure(c *field) error {
	entry, ok := c.MessageData()
	if !ok {
		return errType
	}
	var key, value string
	err := fields(entry, func(c *field) error {
		switch c.FieldNum {
		case 1:
			return text(c, &key)
		case 2:
			return text(c, &value)
		}
		return nil
	})
	m.configuration[key] = value
	return err
}

// read reads signer options, of which there may be one kind.
func (o *signerOpts) read(c *field) error {
	b, ok := c.MessageData()
	switch {
	case !ok:
		return errType
	case o.field != 0:
		return errors.New("signerOpts are there twice")
	}
	o.field = c.FieldNum
	hash := uint32(1)
	if o.field == fieldPSS {
		hash = 2
	}
	return fields(b, func(c *field) error {
		if c.FieldNum > hash {
			return nil
		}
		n, ok := c.Uint64() // what is negative has 64 bits in this format
		if !ok {
			return errType
		}
		if c.FieldNum == hash {
			o.hash = uint32(n) //nolint:gosec // as protobuf cuts it
		} else {
			o.salt = int32(n) //nolint:gosec // likewise
		}
		return nil
	})
}

// signer gives the options in Go's types.
func (o signerOpts) signer() (crypto.SignerOpts, error) {
	switch o.field {
	case fieldPSS:
		return &rsa.PSSOptions{SaltLength: int(o.salt), Hash: crypto.Hash(o.hash)}, nil
	case fieldPKCS1:
		return hashed("RSA PKCS#1 v1.5", o.hash)
	case fieldECDSA:
		return hashed("ECDSA", o.hash)
	case fieldEd25519:
		if o.hash != 0 {
			return nil, fmt.Errorf("Ed25519 signs the message itself, not its hash (number %d)", o.hash) // a name
		}
		return crypto.Hash(0), nil
	}
	return nil, errors.New("signerOpts is missing")
}

func hashed(kind string, h uint32) (crypto.SignerOpts, error) {
	if h == 0 {
		return nil, fmt.Errorf("%s needs a hash", kind)
	}
	return crypto.Hash(h), nil
}

// one writes a message with one field.
func one(number uint32, value []byte) []byte {
	var m easyproto.Marshaler
	m.MessageMarshaler().AppendBytes(number, value)
	return m.Marshal(nil)
}
