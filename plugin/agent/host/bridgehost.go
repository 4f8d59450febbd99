package host

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// bridgeHost runs the bridge. If its port is taken when the agent starts, every
// prepare tries again: the agent is useful for saying so.
type bridgeHost struct {
	dirs   home.Dirs
	passed *os.File // the listening socket, see [PassedPort]; may be nil
	serve  func(cert func() *tls.Certificate) *bridge.Server
	log    *slog.Logger

	cert atomic.Pointer[tls.Certificate] // certificate that the bridge shows

	mu      sync.Mutex
	server  *bridge.Server
	ep      loopback.Endpoint // endpoint on disk
	read    time.Time         // time of that reading
	address string
	err     error
	done    chan struct{}
}

// ensure makes the bridge listen. Errors: [loopback.ErrPortTaken].
func (b *bridgeHost) ensure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server == nil {
		b.err = b.listen()
		return b.err
	}
	if time.Since(b.read) > rereadAfter {
		return b.identify()
	}
	return nil
}

// rereadAfter is how often the bridge gets a new certificate.
const rereadAfter = 12 * time.Hour

// identify reads where the bridge listens, and makes its certificate. It is called with b.mu held.
func (b *bridgeHost) identify() error {
	ep, err := loopback.Load(b.dirs)
	if err != nil {
		return err
	}
	cert, err := loopback.Certificate(b.dirs)
	if err != nil {
		return err
	}
	b.ep, b.read = ep, time.Now()
	b.cert.Store(&cert)
	return nil
}

// known makes sure that a client which knows these authorities, as PEM, can verify the
// bridge: it would say nothing but that a certificate is of an unknown authority. Some clients
// do not say what they know.
func (b *bridgeHost) known(name string, authorities []byte) error {
	if len(authorities) == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ep.KnownTo(authorities) {
		return nil
	}
	if err := b.identify(); err != nil { // the folder may have been made anew
		return err
	}
	if b.ep.KnownTo(authorities) {
		return nil
	}
	return hint.Withf(fmt.Errorf("the kubeconfig entry of %q does not know kubehsm's bridge on this computer: it was "+
		"written on another one, or before the bridge got another CA", name),
		"`kubehsm kubeconfig set %s` writes the entry again", name)
}

// listen is called with b.mu held.
func (b *bridgeHost) listen() error {
	if _, err := loopback.Setup(b.dirs); err != nil {
		return err
	}
	if err := b.identify(); err != nil {
		return err
	}
	ep := b.ep
	l, err := b.port(ep)
	if err != nil {
		return err
	}
	s := b.serve(b.cert.Load)
	done := make(chan struct{})
	b.server, b.address, b.done = s, ep.Address(), done
	go func() {
		defer close(done)
		err := s.Serve(l)
		b.mu.Lock()
		defer b.mu.Unlock()
		if err != nil {
			b.log.Error("bridge", "error", err)
			b.server, b.err = nil, err
		}
	}()
	return nil
}

// carry serves a connection to the bridge that comes over the agent's socket, if f asks for one. It reports whether it
// did, once the connection has ended.
func (b *bridgeHost) carry(l *link.Server, c net.Conn, f wire.Frame) bool {
	var h link.Header
	if f.Decode(&h) != nil || h.Op != message.OpBridge {
		return false
	}
	peer, err := l.Peer()
	if err == nil {
		err = b.ensure()
	}
	if err == nil {
		b.mu.Lock()
		s := b.server
		b.mu.Unlock()
		err = s.ServeConn(c, peer)
	}
	if err != nil { // the client sees that the connection ends
		b.log.Error("bridge", "error", err)
	}
	return true
}

// port takes the bridge's port, from the service manager if it has the port.
func (b *bridgeHost) port(ep loopback.Endpoint) (net.Listener, error) {
	if b.passed == nil {
		return loopback.Listen(ep)
	}
	l, err := net.FileListener(b.passed)
	switch {
	case err != nil:
		b.log.Warn("the service manager's socket cannot be used", "error", err)
	case l.Addr().String() == ep.Address():
		return l, nil
	default:
		b.log.Warn("the bridge has another port than the service manager's socket", "socket", l.Addr(), "port", ep.Port)
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return loopback.Listen(ep)
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
