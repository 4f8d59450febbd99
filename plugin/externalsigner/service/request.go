package service

import (
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// call is what a client asks for, in Go's types; opts is nil for a certificate.
type call struct {
	config map[string]string
	digest []byte
	opts   crypto.SignerOpts
}

func (c call) request() (externalsigner.Request, error) {
	if c.config == nil {
		c.config = map[string]string{}
	}
	return wire.FromParts(c.config, c.digest, c.opts)
}

// optsOf reads the signer options.
func optsOf(r *v1alpha1.SignatureRequest) (crypto.SignerOpts, error) {
	switch o := r.GetSignerOpts().(type) {
	case *v1alpha1.SignatureRequest_SignerOptsRSAPSS:
		return &rsa.PSSOptions{SaltLength: int(o.SignerOptsRSAPSS.GetSaltLenght()), Hash: crypto.Hash(o.SignerOptsRSAPSS.GetHash())}, nil
	case *v1alpha1.SignatureRequest_SignerOptsRSAPKCS1:
		return hashed("RSA PKCS#1 v1.5", o.SignerOptsRSAPKCS1.GetHash())
	case *v1alpha1.SignatureRequest_SignerOptsECDSA:
		return hashed("ECDSA", o.SignerOptsECDSA.GetHash())
	case *v1alpha1.SignatureRequest_SignerOptsED25519:
		if h := o.SignerOptsED25519.GetHash(); h != 0 {
			return nil, fmt.Errorf("Ed25519 signs the message itself, not its hash (number %d)", h) // a name
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
