package host

import (
	"context"
	"crypto"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/consent"
)

// errLowers says that the agent signs no policy that is less strict: that takes a PIN which a
// person types.
var errLowers = errors.New("the policy is less strict than the one in force")

// signPolicy signs a version of the consent policy of an enrollment's key, without a PIN, if the
// key is held unlocked now and the version is no less strict than what is in force for the key.
// Any program of the user can have that: it could make the policy of the enrollment's own file
// stricter, too.
func (s *externalSigner) signPolicy(ctx context.Context, q auditing.Requester, text string,
	p *link.Asker) (*wire.Signed, error) {
	e, err := s.keys.store.Load(q.Enrollment)
	if err != nil {
		return nil, err
	}
	v, err := consent.ReadVersion(text, e.KeyHash)
	if err != nil {
		return nil, err
	}
	if now, _ := s.keys.policies.Of(e); !v.Consent().Covers(now) {
		return nil, fmt.Errorf("%s: %w", e.Name, errLowers)
	}
	if !s.tokens.Of(e.Key).Unlocked() {
		return &wire.Signed{}, nil
	}
	chain, err := s.keys.store.Certificate(e)
	if err != nil {
		return nil, err
	}
	defer s.tokens.Of(e.Key).Questions().Tell(p)()
	use := token.Use{Client: q.Client, Ask: p.Ask,
		Purpose: hsm.Purpose{Cluster: e.Name, Action: "sign the consent policy"}}
	signature, err := s.keys.use(ctx, use, e, chain[0].PublicKey, func(key crypto.Signer) ([]byte, error) {
		return consent.Sign(key, text)
	})
	if errors.Is(err, hsm.ErrPINRequired) { // a PIN for each signature
		return &wire.Signed{}, nil
	}
	s.records.SignedPolicy(e, q, err)
	if err != nil {
		return nil, err
	}
	return &wire.Signed{Held: true, Signature: signature}, nil
}
