//go:build cgo

package externalsigner

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"strconv"
	"testing"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// optionsOf are the signatures that a key makes in handshakes, and more.
func optionsOf(a hsm.Algorithm) (all []crypto.SignerOpts) {
	hashes := []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512}
	if a == hsm.Ed25519 {
		return []crypto.SignerOpts{crypto.Hash(0)}
	}
	for _, h := range hashes {
		all = append(all, h)
		if a.RSABits() > 0 {
			for _, salt := range []int{rsa.PSSSaltLengthEqualsHash, rsa.PSSSaltLengthAuto, 20} {
				all = append(all, &rsa.PSSOptions{SaltLength: salt, Hash: h})
			}
		}
	}
	return all
}

// optionsNotOf are of other kinds of key.
func optionsNotOf(a hsm.Algorithm) []crypto.SignerOpts {
	pss := &rsa.PSSOptions{SaltLength: -1, Hash: crypto.SHA256}
	switch {
	case a == hsm.Ed25519:
		return []crypto.SignerOpts{crypto.SHA512, pss}
	case a.RSABits() > 0:
		return []crypto.SignerOpts{crypto.Hash(0)}
	}
	return []crypto.SignerOpts{crypto.Hash(0), pss}
}

func verify(public crypto.PublicKey, digest, sig []byte, opts crypto.SignerOpts) error {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if pss, ok := opts.(*rsa.PSSOptions); ok {
			return rsa.VerifyPSS(k, pss.Hash, digest, sig, pss)
		}
		return rsa.VerifyPKCS1v15(k, opts.HashFunc(), digest, sig)
	case *ecdsa.PublicKey:
		if ecdsa.VerifyASN1(k, digest, sig) {
			return nil
		}
	case ed25519.PublicKey:
		if ed25519.Verify(k, digest, sig) {
			return nil
		}
	}
	return errors.New("verification failed")
}

// direct runs f in a logged-in session beside any driver's.
func direct(t *testing.T, soft *hsmtest.SoftHSM, f func(*p11.Ctx, p11.SessionHandle) error) {
	t.Helper()
	c := p11.New(soft.Module)
	if c == nil {
		t.Fatalf("cannot load %s", soft.Module)
	}
	defer c.Destroy()
	err := func() error {
		if err := c.Initialize(); err != nil {
			return err
		}
		defer c.Finalize()
		slots, err := c.GetSlotList(true)
		if err != nil {
			return err
		}
		for _, s := range slots {
			info, err := c.GetTokenInfo(s)
			if err != nil || info.Label != "signer" {
				continue
			}
			sh, err := c.OpenSession(s, p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
			if err != nil {
				return err
			}
			if err := c.Login(sh, p11.CKU_USER, testPIN); err != nil {
				return err
			}
			return f(c, sh)
		}
		return errors.New("no token")
	}()
	check(t, err)
}

func objects(c *p11.Ctx, sh p11.SessionHandle, template ...*p11.Attribute) ([]p11.ObjectHandle, error) {
	if err := c.FindObjectsInit(sh, template); err != nil {
		return nil, err
	}
	found, _, err := c.FindObjects(sh, 100)
	return found, errors.Join(err, c.FindObjectsFinal(sh))
}

// setID gives all objects of the slot another CKA_ID and returns it as the
// KEP's configuration has it.
func setID(t *testing.T, soft *hsmtest.SoftHSM, slot hsm.Slot, id []byte) string {
	t.Helper()
	direct(t, soft, func(c *p11.Ctx, sh p11.SessionHandle) error {
		found, err := objects(c, sh, p11.NewAttribute(p11.CKA_ID, slot.URI.ID))
		if err != nil || len(found) < 3 {
			return fmt.Errorf("%d objects, %w", len(found), err)
		}
		for _, o := range found {
			if err := c.SetAttributeValue(sh, o, []*p11.Attribute{p11.NewAttribute(p11.CKA_ID, id)}); err != nil {
				return err
			}
		}
		return nil
	})
	return strconv.Itoa(int(id[0]))
}

func deleteCertificates(t *testing.T, soft *hsmtest.SoftHSM, id []byte) {
	t.Helper()
	direct(t, soft, func(c *p11.Ctx, sh p11.SessionHandle) error {
		found, err := objects(c, sh, p11.NewAttribute(p11.CKA_CLASS, p11.CKO_CERTIFICATE), p11.NewAttribute(p11.CKA_ID, id))
		for _, o := range found {
			err = errors.Join(err, c.DestroyObject(sh, o))
		}
		return err
	})
}

// moveCertificate puts the certificate of one key to the id of another, whose
// own private key is deleted from its old place.
func moveCertificate(t *testing.T, soft *hsmtest.SoftHSM, der, from, to []byte) {
	t.Helper()
	direct(t, soft, func(c *p11.Ctx, sh p11.SessionHandle) error {
		old, err := objects(c, sh, p11.NewAttribute(p11.CKA_ID, from))
		for _, o := range old {
			err = errors.Join(err, c.DestroyObject(sh, o))
		}
		if err != nil {
			return err
		}
		_, err = c.CreateObject(sh, []*p11.Attribute{
			p11.NewAttribute(p11.CKA_CLASS, p11.CKO_CERTIFICATE), p11.NewAttribute(p11.CKA_CERTIFICATE_TYPE, p11.CKC_X_509),
			p11.NewAttribute(p11.CKA_TOKEN, true), p11.NewAttribute(p11.CKA_PRIVATE, false), p11.NewAttribute(p11.CKA_ID, to),
			p11.NewAttribute(p11.CKA_SUBJECT, []byte{0x30, 0}), p11.NewAttribute(p11.CKA_VALUE, der),
		})
		return err
	})
}
