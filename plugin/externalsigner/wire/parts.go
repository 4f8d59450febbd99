package wire

import (
	"crypto"
	"crypto/rsa"
	"fmt"
)

// ForKey makes a request for a signature by the key that uri names, of parts that
// came otherwise than as JSON, by the same rules as [Parse]. Errors wrap
// [ErrRequest].
func ForKey(uri string, digest []byte, opts crypto.SignerOpts) (Request, error) {
	r, err := forKey(uri, digest, opts)
	if err != nil {
		return Request{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return r, nil
}

func forKey(uri string, digest []byte, opts crypto.SignerOpts) (r Request, err error) {
	r.Operation, r.Digest = Sign, digest
	if r.Config, err = parseConfig(map[string]text{KeyURI: text(uri)}); err != nil {
		return r, err
	}
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
