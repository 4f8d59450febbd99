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

// The operations of a worker on a token that it has open.
const (
	opTokenOpen    = "token-open"
	opTokenInfo    = "token-info"
	opTokenSlot    = "token-slot"
	opTokenUnlock  = "token-unlock"
	opTokenAlive   = "token-alive" // nothing: a sign of life
	opTokenState   = "token-state"
	opTokenSigner  = "token-signer" // signatures follow on the same connection
	opTokenSign    = "token-sign"
	opTokenRemoved = "token-removed" // answered when the token has gone
	opTokenLock    = "token-lock"
	opTokenClose   = "token-close"

	opTokenSlots         = "token-slots" // a part at a time
	opTokenGenerate      = "token-generate"
	opTokenStore         = "token-store"
	opTokenDelete        = "token-delete"
	opTokenDetails       = "token-details"
	opTokenChangePIN     = "token-change-pin"
	opTokenUnblock       = "token-unblock"
	opTokenManagementKey = "token-management-key"
	opTokenReset         = "token-reset"
	opTokenAttest        = "token-attest"
)

// The operations of a worker on a source of tokens.
const (
	opSurvey     = "survey" // the tokens of a source
	opInitialize = "initialize"
	opWatch      = "watch" // answered when tokens may have come or gone
)

// workerRequest is what a worker is asked for, with the operation's own message. Except
// on Linux the worker may be of another program than its parent, where that file was
// replaced: the rules of package message hold here too.
type workerRequest[T any] struct {
	link.Header
	// Handle is the token's number among those that were opened, from 0.
	Handle int `json:"handle,omitempty"`
	Token  T   `json:"token"`
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

// surveyRequest wants the tokens of a source. URI is the token that is looked for, if
// one is.
type surveyRequest struct {
	named
	Source hsm.Source `json:"source,omitzero"`
}

// slotsRequest wants the slots of a token, of which From have been sent. All are the empty
// ones too.
type slotsRequest struct {
	asking
	From int  `json:"from,omitempty"`
	All  bool `json:"all,omitempty"`
}

// generateRequest wants a new key.
type generateRequest struct {
	asking
	Options hsm.GenerateOptions `json:"options"`
}

// storeRequest has a certificate written (DER) to the slot of that URI.
type storeRequest struct {
	named
	asking
	Certificate []byte `json:"certificate,omitempty"`
}

// useRequest is about the slot of that URI, and may need a person.
type useRequest struct {
	named
	asking
}

// pinRequest has the PIN of that kind changed.
type pinRequest struct {
	asking
	Kind hsm.PINKind `json:"kind"`
}

// managementKeyRequest replaces the management key. If Given, the new one follows as a
// secret. The new one goes before the answer, as a secret too.
type managementKeyRequest struct {
	asking
	Algorithm hsm.ManagementAlgorithm `json:"algorithm,omitempty"`
	Given     bool                    `json:"given,omitempty"`
	Protect   bool                    `json:"protect,omitempty"`
	Touch     bool                    `json:"touch,omitempty"`
}

// initializeRequest has the token of that URI set up.
type initializeRequest struct {
	named
	asking
	Options hsm.InitializeOptions `json:"options"`
}

// watchRequest waits for a change among the tokens of a scheme.
type watchRequest struct {
	Scheme string `json:"scheme"`
}

// detailsAnswer describes a card further.
type detailsAnswer struct {
	Details hsm.Details `json:"details"`
}

// attestAnswer is an attestation.
type attestAnswer struct {
	Attestation hsm.Attestation `json:"attestation"`
}

// infoAnswer describes the token. Handle is its number, where it was opened.
type infoAnswer struct {
	Info   *hsm.TokenInfo `json:"info,omitempty"`
	Handle int            `json:"handle,omitempty"`
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

// surveyAnswer is what a source has.
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
	Public      []byte   `json:"public,omitempty"`      // PKIX, DER
	Certificate []byte   `json:"certificate,omitempty"` // DER
	Older       [][]byte `json:"older,omitempty"`       // DER
	// More says that Older are those of the slot before, and that there is nothing else.
	More bool `json:"more,omitempty"`
}

func packSlot(s hsm.Slot) (*slotReply, error) {
	r := &slotReply{Slot: s}
	if s.Certificate != nil {
		r.Certificate = s.Certificate.Raw
	}
	for _, c := range s.Older {
		r.Older = append(r.Older, c.Raw)
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
	for _, der := range r.Older {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return hsm.Slot{}, fmt.Errorf("%w: %w", wire.ErrFrame, err)
		}
		s.Older = append(s.Older, c)
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
