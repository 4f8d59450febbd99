package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/miekg/pkcs11"
)

// softHSM is the trial's token, reached by this program's own PKCS#11 calls and
// not through kubehsm, so that what it says of the key is a second opinion.
type softHSM struct {
	ctx  *pkcs11.Ctx
	slot uint
}

// openToken loads module with the trial's configuration and finds the trial's
// token, which is made if there is none.
func openToken(t *trial, module string) (*softHSM, error) {
	if err := os.Setenv("SOFTHSM2_CONF", t.softHSMConfig()); err != nil { // read when the module initializes
		return nil, err
	}
	h := &softHSM{ctx: pkcs11.New(module)}
	if h.ctx == nil {
		return nil, fmt.Errorf("%s cannot be loaded", module)
	}
	if err := h.ctx.Initialize(); err != nil {
		h.ctx.Destroy()
		return nil, fmt.Errorf("%s: %w", module, err)
	}
	slot, found, err := h.find()
	if err == nil && !found {
		slot, err = h.create(slot)
	}
	if err != nil {
		h.close()
		return nil, fmt.Errorf("the trial's token: %w", err)
	}
	h.slot = slot
	return h, nil
}

func (h *softHSM) close() {
	_ = h.ctx.Finalize() // nothing is left to be done if it fails
	h.ctx.Destroy()
}

// find returns the slot of the trial's token, or of an uninitialized one.
func (h *softHSM) find() (slot uint, found bool, err error) {
	slots, err := h.ctx.GetSlotList(true)
	if err != nil {
		return 0, false, err
	}
	blank, haveBlank := uint(0), false
	for _, s := range slots {
		info, err := h.ctx.GetTokenInfo(s)
		if err != nil {
			return 0, false, err
		}
		switch {
		case info.Flags&pkcs11.CKF_TOKEN_INITIALIZED == 0:
			blank, haveBlank = s, true
		case info.Label == tokenLabel && info.Flags&pkcs11.CKF_USER_PIN_INITIALIZED != 0:
			return s, true, nil
		}
	}
	if !haveBlank {
		return 0, false, errors.New("SoftHSM offers no free slot")
	}
	return blank, false, nil
}

// create initializes the blank slot. The security officer's PIN is random and
// forgotten: nobody resets the trial's token.
func (h *softHSM) create(slot uint) (uint, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return 0, err
	}
	officer := hex.EncodeToString(random)
	if err := h.ctx.InitToken(slot, officer, tokenLabel); err != nil {
		return 0, fmt.Errorf("initialize: %w", err)
	}
	session, err := h.ctx.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	if err != nil {
		return 0, err
	}
	defer h.ctx.CloseSession(session)
	if err := h.ctx.Login(session, pkcs11.CKU_SO, officer); err != nil {
		return 0, err
	}
	if err := h.ctx.InitPIN(session, trialPIN); err != nil {
		return 0, fmt.Errorf("set the PIN: %w", err)
	}
	if err := h.ctx.Logout(session); err != nil {
		return 0, err
	}
	slot, found, err := h.find()
	if err == nil && !found {
		err = errors.New("it is not there after it was initialized")
	}
	return slot, err
}

// tokenKey is a key pair on the token, as PKCS#11 tells of it.
type tokenKey struct {
	public                 *ecdsa.PublicKey
	sensitive, extractable bool
	local                  bool // generated on the token, not imported
}

// keyOf finds the key pair whose public half is in cert.
func (h *softHSM) keyOf(cert *x509.Certificate) (tokenKey, error) {
	session, err := h.ctx.OpenSession(h.slot, pkcs11.CKF_SERIAL_SESSION)
	if err != nil {
		return tokenKey{}, err
	}
	defer h.ctx.CloseSession(session)
	if err := h.ctx.Login(session, pkcs11.CKU_USER, trialPIN); err != nil {
		return tokenKey{}, err
	}
	keys, err := h.objects(session, pkcs11.CKO_PUBLIC_KEY)
	if err != nil {
		return tokenKey{}, err
	}
	for _, o := range keys {
		a, err := h.ctx.GetAttributeValue(session, o, []*pkcs11.Attribute{
			pkcs11.NewAttribute(pkcs11.CKA_ID, nil), pkcs11.NewAttribute(pkcs11.CKA_EC_POINT, nil)})
		if err != nil {
			continue // not an elliptic curve key
		}
		public, err := p256(a[1].Value)
		if err != nil || !public.Equal(cert.PublicKey) {
			continue
		}
		return h.private(session, public, a[0].Value)
	}
	return tokenKey{}, errors.New("the certificate's key is not on the token")
}

// private reads what the token says of the private half with that id.
func (h *softHSM) private(session pkcs11.SessionHandle, public *ecdsa.PublicKey, id []byte) (tokenKey, error) {
	objects, err := h.objects(session, pkcs11.CKO_PRIVATE_KEY, pkcs11.NewAttribute(pkcs11.CKA_ID, id))
	if err != nil {
		return tokenKey{}, err
	}
	if len(objects) != 1 {
		return tokenKey{}, fmt.Errorf("%d private keys have the id %x, want 1", len(objects), id)
	}
	a, err := h.ctx.GetAttributeValue(session, objects[0], []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, nil), pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, nil),
		pkcs11.NewAttribute(pkcs11.CKA_LOCAL, nil)})
	if err != nil {
		return tokenKey{}, err
	}
	set := func(i int) bool { return bytes.Equal(a[i].Value, []byte{1}) }
	return tokenKey{public: public, sensitive: set(0), extractable: set(1), local: set(2)}, nil
}

// certificate finds the certificate on the token for which match holds.
func (h *softHSM) certificate(match func(*x509.Certificate) bool) (*x509.Certificate, error) {
	session, err := h.ctx.OpenSession(h.slot, pkcs11.CKF_SERIAL_SESSION)
	if err != nil {
		return nil, err
	}
	defer h.ctx.CloseSession(session)
	objects, err := h.objects(session, pkcs11.CKO_CERTIFICATE)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		a, err := h.ctx.GetAttributeValue(session, o, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_VALUE, nil)})
		if err != nil {
			return nil, err
		}
		if cert, err := x509.ParseCertificate(a[0].Value); err == nil && match(cert) {
			return cert, nil
		}
	}
	return nil, errors.New("the token does not hold it")
}

func (h *softHSM) objects(session pkcs11.SessionHandle, class uint, more ...*pkcs11.Attribute) ([]pkcs11.ObjectHandle,
	error) {
	template := append([]*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_CLASS, class)}, more...)
	if err := h.ctx.FindObjectsInit(session, template); err != nil {
		return nil, err
	}
	found, _, err := h.ctx.FindObjects(session, 100)
	return found, errors.Join(err, h.ctx.FindObjectsFinal(session))
}

// p256 reads CKA_EC_POINT: an uncompressed point in an OCTET STRING.
func p256(der []byte) (*ecdsa.PublicKey, error) {
	var point []byte
	if rest, err := asn1.Unmarshal(der, &point); err != nil || len(rest) > 0 {
		return nil, errors.New("EC_POINT is not an OCTET STRING")
	}
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
}
