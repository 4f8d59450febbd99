package provider

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
	"sync/atomic"
)

// sessions are TLS sessions for resumption, in memory only: a saved one is a credential.
// Connections that trust the same CAs share them.
type sessions struct {
	roots      *x509.CertPool
	serverName string
	insecure   bool

	mu    sync.Mutex
	cache tls.ClientSessionCache
}

const sessionsKept = 16

func newSessions(c *tls.Config) *sessions {
	return &sessions{roots: c.RootCAs, serverName: c.ServerName, insecure: c.InsecureSkipVerify,
		cache: tls.NewLRUClientSessionCache(sessionsKept)}
}

func (s *sessions) fit(c *tls.Config) bool {
	same := s.roots == c.RootCAs || s.roots != nil && c.RootCAs != nil && s.roots.Equal(c.RootCAs)
	return same && s.serverName == c.ServerName && s.insecure == c.InsecureSkipVerify
}

// sessionsFor returns the sessions that c may resume. The caller holds p.mu.
func (p *provider) sessionsFor(c *tls.Config) *sessions {
	for _, s := range p.sessions {
		if s.fit(c) {
			return s
		}
	}
	s := newSessions(c)
	p.sessions = append(p.sessions, s)
	return s
}

// Get implements [tls.ClientSessionCache].
func (s *sessions) Get(key string) (*tls.ClientSessionState, bool) { return s.now().Get(key) }

// Put implements [tls.ClientSessionCache].
func (s *sessions) Put(key string, state *tls.ClientSessionState) { s.now().Put(key, state) }

func (s *sessions) now() tls.ClientSessionCache {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache
}

func (s *sessions) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache = tls.NewLRUClientSessionCache(sessionsKept)
}

// sessionsUnless are no sessions while the flag is set, for a connection that must not authenticate
// by the certificate.
type sessionsUnless struct {
	*sessions
	not *atomic.Bool
}

// Get implements [tls.ClientSessionCache].
func (s sessionsUnless) Get(key string) (*tls.ClientSessionState, bool) {
	if s.not.Load() {
		return nil, false
	}
	return s.sessions.Get(key)
}

// Put implements [tls.ClientSessionCache].
func (s sessionsUnless) Put(key string, state *tls.ClientSessionState) {
	if !s.not.Load() {
		s.sessions.Put(key, state)
	}
}
