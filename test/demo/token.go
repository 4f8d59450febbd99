package main

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"

	"github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// softHSM is the trial's SoftHSM, with its token, which is made if there is none.
func (t *trial) softHSM() (*hsmtest.SoftHSM, error) {
	soft, err := hsmtest.EmptySoftHSM(t.path("softhsm"))
	if err != nil {
		return nil, err
	}
	tokens, err := os.ReadDir(soft.Tokens)
	if err == nil && len(tokens) == 0 {
		err = soft.Add(hsmtest.SoftToken{Label: tokenLabel, PIN: trialPIN})
	}
	return soft, err
}

// token is the trial's token, reached by this program's own PKCS#11 calls and
// not through kubehsm, so that what it says of the key is a second opinion.
type token struct {
	ctx     *pkcs11.Ctx
	session pkcs11.SessionHandle
}

// openToken logs in to the trial's token.
func openToken(soft *hsmtest.SoftHSM) (*token, error) {
	if err := os.Setenv("SOFTHSM2_CONF", soft.Conf); err != nil { // read when the module initializes
		return nil, err
	}
	t := &token{ctx: pkcs11.New(soft.Module)}
	if t.ctx == nil {
		return nil, fmt.Errorf("%s cannot be loaded", soft.Module)
	}
	if err := t.ctx.Initialize(); err != nil {
		t.ctx.Destroy()
		return nil, fmt.Errorf("%s: %w", soft.Module, err)
	}
	if err := t.login(); err != nil {
		t.close()
		return nil, fmt.Errorf("the trial's token: %w", err)
	}
	return t, nil
}

func (t *token) login() error {
	slots, err := t.ctx.GetSlotList(true)
	if err != nil {
		return err
	}
	for _, slot := range slots { // SoftHSM also offers a free one
		if info, err := t.ctx.GetTokenInfo(slot); err != nil || info.Label != tokenLabel {
			continue
		}
		if t.session, err = t.ctx.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION); err != nil {
			return err
		}
		return t.ctx.Login(t.session, pkcs11.CKU_USER, trialPIN)
	}
	return errors.New("it is gone")
}

func (t *token) close() {
	_ = t.ctx.Finalize() // nothing is left to be done if it fails
	t.ctx.Destroy()
}

// certificate finds the certificate for which match holds, and its id, which its key has too.
func (t *token) certificate(match func(*x509.Certificate) bool) (*x509.Certificate, []byte, error) {
	objects, err := t.objects(pkcs11.CKO_CERTIFICATE)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range objects {
		values, err := t.attributes(o, pkcs11.CKA_VALUE, pkcs11.CKA_ID)
		if err != nil {
			return nil, nil, err
		}
		if cert, err := x509.ParseCertificate(values[0]); err == nil && match(cert) {
			return cert, values[1], nil
		}
	}
	return nil, nil, errors.New("the token does not hold it")
}

// holds checks that the one private key with that id is the certificate's, was made
// in the token, and does not come out of it.
func (t *token) holds(cert *x509.Certificate, id []byte) error {
	keys, err := t.objects(pkcs11.CKO_PRIVATE_KEY, pkcs11.NewAttribute(pkcs11.CKA_ID, id))
	if err != nil {
		return err
	}
	if len(keys) != 1 {
		return fmt.Errorf("%d private keys have the id %x, want 1", len(keys), id)
	}
	is, err := t.attributes(keys[0], pkcs11.CKA_LOCAL, pkcs11.CKA_SENSITIVE, pkcs11.CKA_EXTRACTABLE)
	if err != nil {
		return err
	}
	if got := slices.Concat(is...); !slices.Equal(got, []byte{1, 1, 0}) {
		return fmt.Errorf("the key on the token is generated there, sensitive, extractable: %v", got)
	}
	digest := sha256.Sum256([]byte("whose key is it?"))
	if err := t.ctx.SignInit(t.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_ECDSA, nil)}, keys[0]); err != nil {
		return err
	}
	signature, err := t.ctx.Sign(t.session, digest[:])
	if err != nil {
		return err
	}
	public, ok := cert.PublicKey.(*ecdsa.PublicKey)
	r, s := new(big.Int).SetBytes(signature[:len(signature)/2]), new(big.Int).SetBytes(signature[len(signature)/2:])
	if !ok || !ecdsa.Verify(public, digest[:], r, s) {
		return errors.New("the key on the token is not the certificate's")
	}
	return nil
}

func (t *token) objects(class uint, more ...*pkcs11.Attribute) ([]pkcs11.ObjectHandle, error) {
	template := append([]*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_CLASS, class)}, more...)
	if err := t.ctx.FindObjectsInit(t.session, template); err != nil {
		return nil, err
	}
	found, _, err := t.ctx.FindObjects(t.session, 100)
	return found, errors.Join(err, t.ctx.FindObjectsFinal(t.session))
}

func (t *token) attributes(o pkcs11.ObjectHandle, kinds ...uint) (values [][]byte, err error) {
	var template []*pkcs11.Attribute
	for _, kind := range kinds {
		template = append(template, pkcs11.NewAttribute(kind, nil))
	}
	found, err := t.ctx.GetAttributeValue(t.session, o, template)
	for _, a := range found {
		values = append(values, a.Value)
	}
	return values, err
}
