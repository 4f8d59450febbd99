package token

import (
	"maps"
	"slices"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// Options say where tokens come from, and who is told of them.
type Options struct {
	Tokens worker.Tokens
	// Removed is called when a token has gone, or, with disconnected, the server that it came by.
	Removed func(h *Held, disconnected bool)
	// Notice returns what a person is to be told at a prompt about a token, and a function
	// to call when the person has seen it. A nil Notice has nothing to tell.
	Notice func(*Held) (sentences string, seen func())
}

// Holders has the one holder of each token. Make it with [NewHolders]. It is safe for
// concurrent use.
type Holders struct {
	o   Options
	mu  sync.Mutex
	all map[string]*Held // tokens by URI
}

// NewHolders returns Holders of no token so far.
func NewHolders(o Options) *Holders { return &Holders{o: o, all: map[string]*Held{}} }

// Of returns the one holder of the token that a key is on.
func (s *Holders) Of(key hsm.URI) *Held {
	u := key.TokenOnly()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.all[u.String()]
	if h == nil {
		h = newHeld(u, s.o)
		s.all[u.String()] = h
	}
	return h
}

// List returns all of them.
func (s *Holders) List() []*Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.all))
}
