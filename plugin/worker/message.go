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

// request asks a worker for one of the [operations]. Except on Linux the worker may be of
// another program than its parent, where that file was replaced: the rules of package message
// hold here too.
type request struct {
	link.Header
	// Handle is the token's number among those that were opened, from 0.
	Handle int       `json:"handle,omitempty"`
	Token  arguments `json:"token"`
}

// answer is a worker's.
type answer struct {
	link.OK
	Token results `json:"token"`
}

// arguments are those of all operations, each of which takes some.
type arguments struct {
	// Asks says that somebody can be asked.
	Asks bool `json:"asks,omitempty"`
	// URI is the token's, or the slot's.
	URI hsm.URI `json:"uri,omitzero"`
	// Source is where tokens are looked for.
	Source hsm.Source `json:"source,omitzero"`
	// Want is the public key that must be in the slot (PKIX, DER), if any.
	Want []byte `json:"want,omitempty"`
	// Digest is what is signed, Hash its kind, Salt the salt's length if it is
	// signed by RSASSA-PSS, as in [rsa.PSSOptions].
	Digest []byte      `json:"digest,omitempty"`
	Hash   crypto.Hash `json:"hash,omitempty"`
	Salt   *int        `json:"salt,omitempty"`
	// From says how many slots have been sent, All that the empty ones are wanted too.
	From int  `json:"from,omitempty"`
	All  bool `json:"all,omitempty"`
	// Certificate is DER.
	Certificate []byte      `json:"certificate,omitempty"`
	Kind        hsm.PINKind `json:"kind,omitempty"`

	Generate   hsm.GenerateOptions   `json:"generate,omitzero"`
	Initialize hsm.InitializeOptions `json:"initialize,omitzero"`
	// ManagementKey has no key: if Given, the new one follows as a secret. The new one goes
	// before the answer, as a secret too.
	ManagementKey hsm.ManagementKeyOptions `json:"managementKey,omitzero"`
	Given         bool                     `json:"given,omitempty"`
}

// results are those of all operations.
type results struct {
	// Info describes the token. Handle is its number, where it was opened.
	Info        *hsm.TokenInfo  `json:"info,omitempty"`
	Handle      int             `json:"handle,omitempty"`
	Unlocked    bool            `json:"unlocked,omitempty"`
	Public      []byte          `json:"public,omitempty"` // PKIX, DER
	Signature   []byte          `json:"signature,omitempty"`
	Details     hsm.Details     `json:"details,omitzero"`
	Attestation hsm.Attestation `json:"attestation,omitzero"`
	// Tokens and Problems are what a source has.
	Tokens   []hsm.TokenInfo `json:"tokens,omitempty"`
	Problems []problemReply  `json:"problems,omitempty"`
	Slot     *slotReply      `json:"slot,omitempty"`
	// Slots are a part of the Total that are on a token.
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
func (r arguments) options() crypto.SignerOpts {
	if r.Salt != nil {
		return &rsa.PSSOptions{SaltLength: *r.Salt, Hash: r.Hash}
	}
	return r.Hash
}
