package agent

import (
	"sync"

	"github.com/kubehsm/kubehsm/plugin/bridge"
)

// bridgeHost runs the bridge. If its port is taken when the agent starts, every
// prepare tries again: the agent is useful for saying so.
type bridgeHost struct {
	a *agent

	mu      sync.Mutex
	server  *bridge.Server
	address string
	err     error
	done    chan struct{}
}

// ensure makes the bridge listen. Errors: [bridge.ErrPortTaken].
func (b *bridgeHost) ensure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server != nil {
		return nil
	}
	b.err = b.listen()
	return b.err
}

// listen is called with b.mu held.
func (b *bridgeHost) listen() error {
	if _, err := bridge.Setup(b.a.o.Dirs); err != nil {
		return err
	}
	ep, cert, err := bridge.Load(b.a.o.Dirs)
	if err != nil {
		return err
	}
	l, err := bridge.Listen(ep)
	if err != nil {
		return err
	}
	s := bridge.NewServer(cert, b.a.sessions, b.a.route, b.a.log)
	s.Denied, s.Consent, s.Whose = b.a.recordDenial, b.a.consent, b.a.o.whose
	done := make(chan struct{})
	b.server, b.address, b.done = s, ep.Address(), done
	go func() {
		defer close(done)
		err := s.Serve(l)
		b.mu.Lock()
		defer b.mu.Unlock()
		if err != nil {
			b.a.log.Error("bridge", "error", err)
			b.server, b.err = nil, err
		}
	}()
	return nil
}

func (b *bridgeHost) describe() (address, problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		problem = b.err.Error()
	}
	if b.server != nil {
		address = b.address
	}
	return address, problem
}

// close ends the bridge and waits for its listener to be gone.
func (b *bridgeHost) close() error {
	b.mu.Lock()
	s, done := b.server, b.done
	b.mu.Unlock()
	if s == nil {
		return nil
	}
	err := s.Close()
	<-done
	return err
}
