package agent

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// The operations of a worker, which holds one token.
const (
	opTokenOpen    = "token-open"
	opTokenInfo    = "token-info"
	opTokenSlot    = "token-slot"
	opTokenUnlock  = "token-unlock"
	opTokenAlive   = "token-alive" // nothing: a sign of life
	opTokenState   = "token-state"
	opTokenSigner  = "token-signer" // for one signature, on the same connection
	opTokenSign    = "token-sign"
	opTokenRemoved = "token-removed" // answered when the token has gone
	opTokenLock    = "token-lock"
)

// The operations of a worker that holds no token but looks at a library.
const (
	opSurvey = "survey" // the tokens of a library
	opSlots  = "slots"  // the slots of a token, a part at a time
)

// tokenRequest is what the agent wants of its worker.
type tokenRequest struct {
	// URI names the token, or the slot on it.
	URI hsm.URI `json:"uri,omitzero"`
	// Asks says that somebody can be asked.
	Asks bool `json:"asks,omitempty"`
	// Want is the public key that must be in the slot (PKIX, DER), if any.
	Want []byte `json:"want,omitempty"`
	// Digest is what is signed, Hash its kind, Salt the salt's length if it is
	// signed by RSASSA-PSS, as in [rsa.PSSOptions].
	Digest []byte      `json:"digest,omitempty"`
	Hash   crypto.Hash `json:"hash,omitempty"`
	Salt   *int        `json:"salt,omitempty"`
	// Source is the library to look at; URI is then the token that is looked for, if
	// one is.
	Source hsm.Source `json:"source,omitzero"`
	// From is how many of the slots have been sent.
	From int `json:"from,omitempty"`
}

// tokenReply is the worker's answer.
type tokenReply struct {
	Info      *hsm.TokenInfo `json:"info,omitempty"`
	Slot      *slotReply     `json:"slot,omitempty"`
	Unlocked  bool           `json:"unlocked,omitempty"`
	Public    []byte         `json:"public,omitempty"` // PKIX, DER
	Signature []byte         `json:"signature,omitempty"`
	// Tokens and Problems are those of a library, Slots a part of the Total that
	// are on a token.
	Tokens   []hsm.TokenInfo `json:"tokens,omitempty"`
	Problems []problemReply  `json:"problems,omitempty"`
	Slots    []*slotReply    `json:"slots,omitempty"`
	Total    int             `json:"total,omitempty"`
}

// problemReply is a [hsm.Problem].
type problemReply struct {
	Source string   `json:"source"`
	Error  *failure `json:"error"`
}

// slotReply is a slot with what its own encoding leaves out.
type slotReply struct {
	hsm.Slot
	Public      []byte `json:"public,omitempty"`      // PKIX, DER
	Certificate []byte `json:"certificate,omitempty"` // DER
}

func packSlot(s hsm.Slot) (*slotReply, error) {
	r := &slotReply{Slot: s}
	if s.Certificate != nil {
		r.Certificate = s.Certificate.Raw
	}
	if s.Key == nil || s.Key.Public == nil {
		return r, nil
	}
	var err error
	r.Public, err = x509.MarshalPKIXPublicKey(s.Key.Public)
	return r, err
}

func (r *slotReply) unpack() (hsm.Slot, error) {
	s := r.Slot
	var err error
	if len(r.Certificate) > 0 {
		if s.Certificate, err = x509.ParseCertificate(r.Certificate); err != nil {
			return hsm.Slot{}, fmt.Errorf("%w: %w", wire.ErrFrame, err)
		}
	}
	if s.Key != nil && len(r.Public) > 0 {
		if s.Key.Public, err = x509.ParsePKIXPublicKey(r.Public); err != nil {
			return hsm.Slot{}, fmt.Errorf("%w: %w", wire.ErrFrame, err)
		}
	}
	return s, nil
}

// options are the signature's, as crypto.Signer takes them.
func (r tokenRequest) options() crypto.SignerOpts {
	if r.Salt != nil {
		return &rsa.PSSOptions{SaltLength: *r.Salt, Hash: r.Hash}
	}
	return r.Hash
}

// withOptions puts them into a request.
func (r tokenRequest) withOptions(o crypto.SignerOpts) tokenRequest {
	r.Hash = o.HashFunc()
	if pss, ok := o.(*rsa.PSSOptions); ok {
		r.Salt = &pss.SaltLength
	}
	return r
}
