package upstream

import (
	"crypto/tls"
	"sync"
)

// tickets keeps TLS sessions of one upstream in memory. A session that is
// resumed needs neither certificate nor key: it is a bearer credential, so it is
// never written down and can be forgotten at once.
type tickets struct {
	mu    sync.Mutex
	cache tls.ClientSessionCache
}

// Get implements [tls.ClientSessionCache].
func (t *tickets) Get(key string) (*tls.ClientSessionState, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cache == nil {
		return nil, false
	}
	return t.cache.Get(key)
}

// Put implements [tls.ClientSessionCache].
func (t *tickets) Put(key string, s *tls.ClientSessionState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cache == nil {
		t.cache = tls.NewLRUClientSessionCache(16)
	}
	t.cache.Put(key, s)
}

func (t *tickets) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache = nil
}
