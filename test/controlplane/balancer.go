package controlplane

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// Balancer passes TCP connections on to servers in turn, as a load balancer does
// that several API servers stand behind.
type Balancer struct {
	listener net.Listener
	wait     sync.WaitGroup

	mu       sync.Mutex
	backends []string // host:port
	next     int
	open     map[net.Conn]struct{}
	closed   bool
}

// NewBalancer listens on address, such as "127.0.0.1:0", for the servers with
// these URLs.
func NewBalancer(address string, servers ...string) (*Balancer, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	b := &Balancer{listener: l, open: map[net.Conn]struct{}{}}
	if err := b.To(servers...); err != nil {
		l.Close()
		return nil, err
	}
	b.wait.Go(b.serve)
	return b, nil
}

// BalancerForTest is [NewBalancer], closed with the test.
func BalancerForTest(t testing.TB, address string, servers ...string) *Balancer {
	t.Helper()
	b, err := NewBalancer(address, servers...)
	must.OK(t, err)
	t.Cleanup(b.Close)
	return b
}

// URL is where the servers are reached.
func (b *Balancer) URL() string { return "https://" + b.listener.Addr().String() }

// To has connections go to other servers from now on, and ends those there are.
func (b *Balancer) To(servers ...string) error {
	var backends []string
	for _, s := range servers {
		u, err := url.Parse(s)
		if err != nil {
			return err
		}
		backends = append(backends, u.Host)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = backends
	b.cut()
	return nil
}

// Cut ends all connections, as a balancer does that forgets them: the next one
// goes to the next server.
func (b *Balancer) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut()
}

func (b *Balancer) cut() {
	for c := range b.open {
		c.Close()
	}
	clear(b.open)
}

// Close stops listening and ends all connections.
func (b *Balancer) Close() {
	b.mu.Lock()
	b.closed = true
	b.listener.Close()
	b.cut()
	b.mu.Unlock()
	b.wait.Wait()
}

func (b *Balancer) serve() {
	for {
		in, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.wait.Go(func() { b.pass(in) })
	}
}

func (b *Balancer) pass(in net.Conn) {
	defer in.Close()
	b.mu.Lock()
	backend := b.backends[b.next%len(b.backends)]
	b.next++
	b.mu.Unlock()
	out, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	defer out.Close()
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.open[in], b.open[out] = struct{}{}, struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open, in)
		delete(b.open, out)
	}()
	var back sync.WaitGroup
	back.Go(func() { copyHalf(in, out) })
	copyHalf(out, in)
	back.Wait()
}

// copyHalf passes on one direction, and its end.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite() // the other side may be closed already
		return
	}
	to.Close()
}
