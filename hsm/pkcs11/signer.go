//go:build cgo

package pkcs11

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// signer is a [crypto.Signer] for one key.
type signer struct {
	d   *device
	ctx context.Context
	uri hsm.URI
	id  []byte
	pub crypto.PublicKey
	p   hsm.Prompter
	// made is when pub was read.
	made look
}

// Signer implements [hsm.Token]. The PIN is asked for here only if the token
// hides the public key before login.
func (t *token) Signer(ctx context.Context, u hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer, error) {
	e, slot, err := keyAt(ctx, t.d, u)
	if (errors.Is(err, hsm.ErrNoKey) || (err == nil && slot.Key == nil)) && p != nil && !t.Unlocked() {
		if err := t.Unlock(ctx, p); err != nil {
			return nil, err
		}
		e, slot, err = keyAt(ctx, t.d, u)
	}
	switch {
	case err != nil:
		return nil, err
	case slot.Key == nil && slot.Problem != "":
		return nil, fmt.Errorf("%s: %s: %w", u, slot.Problem, hsm.ErrNoKey)
	case slot.Key == nil:
		return nil, fmt.Errorf("%s: %w", u, hsm.ErrNoKey)
	case want != nil && !hsm.SameKey(slot.Key.Public, want):
		return nil, mismatch(u)
	}
	return &signer{d: t.d, ctx: ctx, uri: slot.URI, id: e.id, pub: slot.Key.Public, p: p, made: e.seenIn}, nil
}

func mismatch(u hsm.URI) error {
	return hint.With(fmt.Errorf("%s: %w", u, hsm.ErrKeyMismatch), "the key was replaced; enroll the new one")
}

// Public implements [crypto.Signer].
func (s *signer) Public() crypto.PublicKey { return s.pub }

// Sign implements [crypto.Signer]: ECDSA, RSA PKCS#1 v1.5, RSA-PSS
// ([rsa.PSSOptions]) or Ed25519 by the key and opts. The token's own random
// numbers are used. The signature is verified before it is returned.
func (s *signer) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	plan, err := schemeFor(s.pub, digest, opts)
	if err != nil {
		return nil, err
	}
	raw, err := s.sign(plan)
	if lost(err) || is(err, p11.CKR_USER_NOT_LOGGED_IN) {
		raw, err = s.sign(plan) // on a new session, asking again if the login went with the old one
	}
	if err != nil {
		return nil, fault("sign", err)
	}
	sig, err := plan.finish(raw)
	if err != nil {
		return nil, err
	}
	if err := plan.verify(sig); err != nil {
		return nil, fmt.Errorf("%w: the token's signature is wrong: %w", hsm.ErrModule, err)
	}
	return sig, nil
}

// sign unlocks the token and makes one signature. A key that wants the PIN
// every time (CKA_ALWAYS_AUTHENTICATE) is given the one just typed for the
// login, if there was one, so that nobody types it twice for one signature.
func (s *signer) sign(plan scheme) (sig []byte, err error) {
	var typed *hsm.Secret
	defer func() { typed.Zero() }()
	if err := unlock(s.ctx, s.d, s.p, &typed); err != nil {
		return nil, err
	}
	always := false
	err = s.d.with(s.ctx, func(sh p11.SessionHandle) error {
		var key p11.ObjectHandle
		if key, always, err = s.find(sh); err != nil {
			return err
		}
		if always && typed == nil {
			return nil // ask first, not holding the token
		}
		sig, err = s.run(sh, key, always, nil, typed, plan)
		return err
	})
	if err != nil || !always || typed != nil {
		return sig, err
	}
	if err := s.d.asking.enter(s.ctx); err != nil {
		return nil, err
	}
	defer s.d.asking.leave()
	var asked hsm.TokenInfo
	err = hsm.AskPIN(s.ctx, s.p, hsm.UserPIN, s.d.states(s.ctx, &asked), func(pin *hsm.Secret) error {
		return s.d.with(s.ctx, func(sh p11.SessionHandle) error {
			key, _, err := s.find(sh)
			if err != nil {
				return err
			}
			sig, err = s.run(sh, key, true, &asked.PIN, pin, plan)
			return err
		})
	})
	return sig, err
}

// find returns the private key and whether it wants the PIN every time, after
// checking that it still is the one that the signer was made for.
func (s *signer) find(sh p11.SessionHandle) (key p11.ObjectHandle, always bool, err error) {
	r := s.d.module.reader(sh)
	err = s.d.module.lock.shared(s.ctx, func() error {
		key, always, err = s.match(r)
		return errors.Join(r.err, err)
	})
	if r.err != nil {
		err = r.err
	}
	return key, always, err
}

func (s *signer) match(r *reader) (p11.ObjectHandle, bool, error) {
	template := []*p11.Attribute{p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PRIVATE_KEY),
		p11.NewAttribute(p11.CKA_TOKEN, true)}
	if len(s.id) > 0 {
		template = append(template, p11.NewAttribute(p11.CKA_ID, s.id))
	} else {
		template = append(template, p11.NewAttribute(p11.CKA_LABEL, s.uri.Object))
	}
	handles := r.find(template...)
	label := ""
	if len(handles) > 1 && s.uri.Object != "" { // several share the id
		if named := r.find(append(template, p11.NewAttribute(p11.CKA_LABEL, s.uri.Object))...); len(named) > 0 {
			handles, label = named, s.uri.Object
		}
	}
	other := false
	for _, o := range handles {
		a := r.attributes(o, append([]uint{p11.CKA_ALWAYS_AUTHENTICATE}, publicParts...)...)
		pub := publicKey(a)
		if pub == nil && len(handles) == 1 && s.made.good(r.sh) {
			pub = s.pub
		} else if pub == nil {
			pub = s.partner(r, label)
		}
		if hsm.SameKey(s.pub, pub) {
			always, _ := flag(a[p11.CKA_ALWAYS_AUTHENTICATE])
			return o, always, r.err
		}
		other = other || pub != nil
	}
	switch {
	case r.err != nil:
		return 0, false, r.err
	case other:
		return 0, false, mismatch(s.uri)
	case !s.d.usable(): // the login went with a session
		return 0, false, p11.Error(p11.CKR_USER_NOT_LOGGED_IN)
	}
	if err := there(s.d.module, s.d.slot); err != nil {
		return 0, false, err
	}
	return 0, false, fmt.Errorf("%s: %w", s.uri, hsm.ErrNoKey)
}

// partner reads the public key of a private one that does not tell its own:
// from the public key object with the same id, and label if that is not "", or the
// certificate with the same id.
func (s *signer) partner(r *reader, label string) crypto.PublicKey {
	if len(s.id) == 0 {
		return nil
	}
	for _, o := range r.class(p11.CKO_PUBLIC_KEY, s.id) {
		if label != "" && trim(string(r.attributes(o, p11.CKA_LABEL)[p11.CKA_LABEL])) != label {
			continue
		}
		if pub := r.publicKey(o); pub != nil {
			return pub
		}
	}
	for _, o := range r.class(p11.CKO_CERTIFICATE, s.id) {
		if c, ok := r.certificate(o); ok {
			return c.cert.PublicKey
		}
	}
	return nil
}

// run makes the signature by the first attempt that the token takes. The lock
// between processes is not held: the token may be waiting for a touch.
func (s *signer) run(sh p11.SessionHandle, key p11.ObjectHandle, always bool, asked *hsm.PINState, pin *hsm.Secret,
	plan scheme) (sig []byte, err error) {
	for i, a := range plan.attempts {
		if i > 0 && !refused(err) {
			break
		}
		if always {
			sig, err = s.authenticated(key, asked, pin, a)
		} else {
			sig, err = s.once(sh, key, a)
		}
		if err == nil {
			return sig, nil
		}
	}
	return nil, err
}

// refused tells whether a token turned a mechanism down, so that another one
// may do.
func refused(err error) bool {
	return is(err, p11.CKR_MECHANISM_INVALID, p11.CKR_MECHANISM_PARAM_INVALID, p11.CKR_FUNCTION_NOT_SUPPORTED,
		p11.CKR_KEY_FUNCTION_NOT_PERMITTED, p11.CKR_KEY_TYPE_INCONSISTENT, p11.CKR_ARGUMENTS_BAD, p11.CKR_GENERAL_ERROR,
		p11.CKR_FUNCTION_FAILED, p11.CKR_DATA_LEN_RANGE, p11.CKR_DATA_INVALID)
}

func (s *signer) once(sh p11.SessionHandle, key p11.ObjectHandle, a attempt) ([]byte, error) {
	c := s.d.module.ctx
	if err := c.SignInit(sh, []*p11.Mechanism{a.mechanism}, key); err != nil {
		return nil, err
	}
	return s.d.module.lib.sign(c, sh, a.data)
}

// authenticated signs with a key that wants the PIN for it: in a session of its
// own, as a refused PIN leaves the operation hanging there.
func (s *signer) authenticated(key p11.ObjectHandle, asked *hsm.PINState, pin *hsm.Secret, a attempt) (sig []byte,
	err error) {
	c := s.d.module.ctx
	var sh p11.SessionHandle
	err = s.d.module.lock.shared(s.ctx, func() error {
		sh, err = c.OpenSession(s.d.slot, p11.CKF_SERIAL_SESSION)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := c.CloseSession(sh); !lost(closing) {
			err = errors.Join(err, closing)
		}
	}()
	if err := c.SignInit(sh, []*p11.Mechanism{a.mechanism}, key); err != nil {
		return nil, err
	}
	if err := s.d.login(s.ctx, sh, p11.CKU_CONTEXT_SPECIFIC, asked, pin); err != nil {
		return nil, err
	}
	return s.d.module.lib.sign(c, sh, a.data)
}
