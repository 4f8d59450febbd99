package host

import (
	"maps"
	"slices"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// heldTokens has the one holder of each token.
type heldTokens struct {
	source  worker.Tokens
	removed func(*heldToken)                                     // called when a token has gone
	tried   func(q auditing.Requester, token hsm.URI, err error) // called with the end of each attempt to unlock
	notice  func(token hsm.URI) (sentences string, told func())  // the function of [auditing.Policies.Notice]

	mu  sync.Mutex
	all map[string]*heldToken // tokens by URI
}

// of returns the one holder of the token that a key is on.
func (s *heldTokens) of(key hsm.URI) *heldToken {
	u := key.TokenOnly()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.all[u.String()]
	if h == nil {
		h = newHeldToken(u, s.source)
		h.tried = func(q auditing.Requester, err error) { s.tried(q, u, err) }
		h.removed = func() { s.removed(h) }
		h.notice = func() (string, func()) { return s.notice(u) }
		s.all[u.String()] = h
	}
	return h
}

// list returns all of them.
func (s *heldTokens) list() []*heldToken {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.all))
}
