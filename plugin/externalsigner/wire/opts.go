package wire

import (
	"crypto"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/kubehsm/kubehsm/hsm/shared/strict"
)

// The types of signer options, as Go's reflect names them.
const (
	typePSS  = "*rsa.PSSOptions"
	typeHash = "crypto.Hash"
	// The KEP's text once leaves the star out.
	typePSSPlain = "rsa.PSSOptions"
)

// maxSalt bounds an RSA-PSS salt: an 8192-bit key has a shorter one.
const maxSalt = 1024

// parseOpts reads signer options, which are a JSON text in a JSON string.
func parseOpts(kind, value string) (crypto.SignerOpts, error) {
	switch kind {
	case typeHash:
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != value {
			return nil, fmt.Errorf("signerOpts %.40q is not the number of a hash", value)
		}
		return parseHash(uint(n), true)
	case typePSS, typePSSPlain:
		return parsePSS(value)
	}
	return nil, fmt.Errorf("unknown signerOptsType %.80q", kind)
}

func parsePSS(value string) (crypto.SignerOpts, error) {
	all, err := strict.Members([]byte(value))
	if err != nil {
		return nil, fmt.Errorf("signerOpts: %w", err)
	}
	var salt *int
	var hash *uint
	for _, m := range all {
		switch m.Name {
		case "SaltLength":
			err = m.Read(&salt)
		case "Hash":
			err = m.Read(&hash)
		default:
			err = m.Unknown()
		}
		if err != nil {
			return nil, fmt.Errorf("signerOpts: %w", err)
		}
	}
	if salt == nil || hash == nil {
		return nil, errors.New("signerOpts for RSA-PSS are SaltLength and Hash")
	}
	return pss(*salt, *hash)
}

func pss(salt int, hash uint) (crypto.SignerOpts, error) {
	if salt < rsa.PSSSaltLengthEqualsHash || salt > maxSalt {
		return nil, fmt.Errorf("an RSA-PSS salt of %d bytes", salt)
	}
	h, err := parseHash(hash, false)
	if err != nil {
		return nil, err
	}
	return &rsa.PSSOptions{SaltLength: salt, Hash: h}, nil
}

// parseHash admits the hashes of TLS 1.2 and 1.3, and 0 for a message signed as it is.
func parseHash(n uint, none bool) (crypto.Hash, error) {
	switch h := crypto.Hash(n); {
	case h == crypto.SHA256, h == crypto.SHA384, h == crypto.SHA512, h == 0 && none:
		return h, nil
	case h == 0:
		return 0, errors.New("RSA-PSS needs a hash")
	}
	return 0, fmt.Errorf("hash number %d is not one of %d (SHA-256), %d (SHA-384), %d (SHA-512)", n, crypto.SHA256,
		crypto.SHA384, crypto.SHA512)
}

func formatOpts(opts crypto.SignerOpts) (kind, value string, err error) {
	switch o := opts.(type) {
	case *rsa.PSSOptions:
		b, err := json.Marshal(o)
		return typePSS, string(b), err
	case crypto.Hash:
		return typeHash, strconv.FormatUint(uint64(o), 10), nil
	}
	return "", "", fmt.Errorf("the external signer protocol has no signer options %T", opts)
}
