package service

import (
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
)

// signerOpts gives a request's options in Go's types.
func signerOpts(r *v1alpha1.SignatureRequest) (crypto.SignerOpts, error) {
	switch o := r.GetSignerOpts().(type) {
	case *v1alpha1.SignatureRequest_SignerOptsRSAPSS:
		return &rsa.PSSOptions{SaltLength: int(o.SignerOptsRSAPSS.GetSaltLenght()),
			Hash: crypto.Hash(o.SignerOptsRSAPSS.GetHash())}, nil
	case *v1alpha1.SignatureRequest_SignerOptsRSAPKCS1:
		return hashed("RSA PKCS#1 v1.5", o.SignerOptsRSAPKCS1)
	case *v1alpha1.SignatureRequest_SignerOptsECDSA:
		return hashed("ECDSA", o.SignerOptsECDSA)
	case *v1alpha1.SignatureRequest_SignerOptsED25519:
		if h := o.SignerOptsED25519.GetHash(); h != 0 {
			return nil, fmt.Errorf("Ed25519 signs the message itself, not its hash (number %d)", h) // a name
		}
		return crypto.Hash(0), nil
	}
	return nil, errors.New("signerOpts is missing")
}

func hashed(kind string, o *v1alpha1.SignatureRequest_GenericSignerOptions) (crypto.SignerOpts, error) {
	if o.GetHash() == 0 {
		return nil, fmt.Errorf("%s needs a hash", kind)
	}
	return crypto.Hash(o.GetHash()), nil
}
