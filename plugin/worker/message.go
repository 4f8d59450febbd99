package worker

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
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

// workerRequest is what a worker is asked for, with the operation's own message. Except
// on Linux the worker may be of another program than its parent, where that file was
// replaced: the rules of package message hold here too.
type workerRequest[T any] struct {
	link.Header
	Token T `json:"token"`
}

// workerAnswer is a worker's.
type workerAnswer[T any] struct {
	link.OK
	Token T `json:"token"`
}

// nothing is the message of an operation that has no other, and such an answer.
type nothing struct{}

// asking is part of a request that may need a person.
type asking struct {
	// Asks says that somebody can be asked.
	Asks bool `json:"asks,omitempty"`
}

// named is a request about the token, or the slot, of that URI.
type named struct {
	URI hsm.URI `json:"uri,omitzero"`
}

// signerRequest wants the key in a slot.
type signerRequest struct {
	named
	asking
	// Want is the public key that must be in the slot (PKIX, DER), if any.
	Want []byte `json:"want,omitempty"`
}

// signatureRequest wants a signature by the key of the last signerRequest.
type signatureRequest struct {
	asking
	// Digest is what is signed, Hash its kind, Salt the salt's length if it is
	// signed by RSASSA-PSS, as in [rsa.PSSOptions].
	Digest []byte      `json:"digest,omitempty"`
	Hash   crypto.Hash `json:"hash,omitempty"`
	Salt   *int        `json:"salt,omitempty"`
}

// surveyRequest wants the tokens of a library. URI is the token that is looked for, if
// one is.
type surveyRequest struct {
	named
	Source hsm.Source `json:"source,omitzero"`
}

// slotsRequest wants the slots of a token, of which From have been sent.
type slotsRequest struct {
	named
	From int `json:"from,omitempty"`
}

// infoAnswer describes the token.
type infoAnswer struct {
	Info *hsm.TokenInfo `json:"info,omitempty"`
}

// slotAnswer is a slot.
type slotAnswer struct {
	Slot *slotReply `json:"slot,omitempty"`
}

// stateAnswer tells whether the token is unlocked.
type stateAnswer struct {
	Unlocked bool `json:"unlocked,omitempty"`
}

// signerAnswer is the public key of the signer.
type signerAnswer struct {
	Public []byte `json:"public,omitempty"` // PKIX, DER
}

// signatureAnswer is a signature.
type signatureAnswer struct {
	Signature []byte `json:"signature,omitempty"`
}

// surveyAnswer is what a library has.
type surveyAnswer struct {
	Tokens   []hsm.TokenInfo `json:"tokens,omitempty"`
	Problems []problemReply  `json:"problems,omitempty"`
}

// slotsAnswer is a part of the Total that are on a token.
type slotsAnswer struct {
	Slots []*slotReply `json:"slots,omitempty"`
	Total int          `json:"total,omitempty"`
}

// problemReply is a [hsm.Problem].
type problemReply struct {
	Source string        `json:"source"`
	Error  *link.Failure `json:"error"`
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

// unpack is the other side of packSlot. Errors wrap [wire.ErrFrame].
func (r *slotReply) unpack() (hsm.Slot, error) {
	if r == nil {
		return hsm.Slot{}, fmt.Errorf("%w: no slot", wire.ErrFrame)
	}
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
func (r signatureRequest) options() crypto.SignerOpts {
	if r.Salt != nil {
		return &rsa.PSSOptions{SaltLength: *r.Salt, Hash: r.Hash}
	}
	return r.Hash
}

// newSignatureRequest is the other side of options.
func newSignatureRequest(digest []byte, o crypto.SignerOpts) signatureRequest {
	r := signatureRequest{Digest: digest, Hash: o.HashFunc()}
	if pss, ok := o.(*rsa.PSSOptions); ok {
		r.Salt = &pss.SaltLength
	}
	return r
}
