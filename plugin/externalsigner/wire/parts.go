package wire

import (
	"crypto"
	"crypto/rsa"
	"fmt"
)

// FromParts makes a request of parts that came otherwise than as JSON, by the
// same rules as [Parse]: config is the auth provider's configuration, digest
// and opts are nil for a certificate. Errors wrap [ErrRequest]. The caller
// zeroes the request; a PIN in config stays in memory, as strings do.
func FromParts(config map[string]string, digest []byte, opts crypto.SignerOpts) (Request, error) {
	r, err := fromParts(config, digest, opts)
	if err != nil {
		r.Zero()
		return Request{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return r, nil
}

func fromParts(config map[string]string, digest []byte, opts crypto.SignerOpts) (r Request, err error) {
	values := make(map[string]text, len(config))
	for key, value := range config {
		values[key] = text(value)
	}
	r.Operation = Certificate
	if r.Config, err = parseConfig(values); err != nil || opts == nil {
		return r, err
	}
	r.Operation, r.Digest = Sign, digest
	switch o := opts.(type) {
	case *rsa.PSSOptions:
		r.Opts, err = pss(o.SaltLength, uint(o.Hash))
	case crypto.Hash:
		r.Opts, err = parseHash(uint(o), true)
	default:
		err = fmt.Errorf("unknown signer options %T", opts)
	}
	if err != nil {
		return r, err
	}
	return r, checkDigest(digest, r.Opts.HashFunc())
}
