package wire

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
)

// CheckKey checks that options are of the key's kind: only Ed25519 signs
// without a hash, and what has none may be of any length. That a digest has its
// hash's length is seen to where a request is read. The error wraps [ErrRequest].
func CheckKey(public crypto.PublicKey, opts crypto.SignerOpts) error {
	_, pss := opts.(*rsa.PSSOptions)
	none := opts.HashFunc() == 0
	switch public.(type) {
	case *rsa.PublicKey:
		if !none {
			return nil
		}
	case *ecdsa.PublicKey:
		if !none && !pss {
			return nil
		}
	case ed25519.PublicKey:
		if none && !pss {
			return nil
		}
	}
	return fmt.Errorf("%w: a key of the kind %s does not sign with %T, hash %d", ErrRequest, hsm.AlgorithmOf(public), opts,
		opts.HashFunc())
}
