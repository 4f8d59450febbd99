//go:build linux

package transparency

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/poll"
)

// faulty passes TCP connections on to the first of its servers that takes them, and
// does to them on demand what networks and dying servers do.
type faulty struct {
	t       *testing.T
	address string

	mu       sync.Mutex
	servers  []string
	listener net.Listener
	open     map[*passed]struct{}
	bytes    int             // bytes of answers still to pass before the fault
	fault    func(p *passed) // the fault to come, nil for none
	still    chan struct{}   // bytes wait until it is closed; nil: all pass
	moved    time.Time       // when the last bytes came
	wait     sync.WaitGroup
}

// passed is one connection.
type passed struct{ client, server *net.TCPConn }

// reset ends it as a machine does that knows nothing of it.
func (p *passed) reset() {
	_ = p.client.SetLinger(0) // either may be closed already
	_ = p.client.Close()
	_ = p.server.Close()
}

// halfClose ends what the server says, and goes on listening.
func (p *passed) halfClose() { _ = p.client.CloseWrite() }

func newFaulty(t *testing.T, servers ...string) *faulty {
	f := &faulty{t: t, servers: servers, address: "127.0.0.1:0", open: map[*passed]struct{}{}}
	f.listen()
	t.Cleanup(func() {
		f.refuse()
		f.wait.Wait()
	})
	return f
}

func (f *faulty) url() string { return "https://" + f.address }

// listen takes connections, again at the same port.
func (f *faulty) listen() {
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.mu.Lock()
	f.listener, f.address = l, l.Addr().String()
	f.mu.Unlock()
	f.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.wait.Go(func() { f.pass(c.(*net.TCPConn)) })
		}
	})
}

// refuse ends all connections and takes no more, as a server that was killed.
func (f *faulty) refuse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.listener.Close() // the listener may be closed
	for p := range f.open {
		p.reset()
	}
}

// once has what fault does happen after that many bytes of answers, to the connection
// that they come by.
func (f *faulty) once(bytes int, fault func(*passed)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes, f.fault = bytes, fault
}

// quiet waits until nothing has come for a moment: a fault that strikes the next answer then strikes that of the next
// request, and not that of a connection which the bridge was just making.
func (f *faulty) quiet() {
	if !poll.Within(poll.Patience, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return time.Since(f.moved) > 100*time.Millisecond
	}) {
		f.t.Error("the connections never rest")
	}
}

// stall has nothing pass until the returned function is called.
func (f *faulty) stall() (goOn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	still := make(chan struct{})
	f.still = still
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.still = nil
		close(still)
	}
}

// to has other servers take the place of those that there were. Connections to them
// break, as they do when a machine is replaced.
func (f *faulty) to(servers ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = servers
	for p := range f.open {
		p.reset()
	}
}

// replace has the next server take the place of the first.
func (f *faulty) replace() {
	f.mu.Lock()
	next := append(f.servers[1:len(f.servers):len(f.servers)], f.servers[0])
	f.mu.Unlock()
	f.to(next...)
}

// dial connects to the first server that takes connections.
func (f *faulty) dial() (*net.TCPConn, error) {
	f.mu.Lock()
	servers := f.servers
	f.mu.Unlock()
	var errs []error
	for _, server := range servers {
		c, err := net.Dial("tcp", strings.TrimPrefix(server, "https://"))
		if err == nil {
			return c.(*net.TCPConn), nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (f *faulty) pass(client *net.TCPConn) {
	defer client.Close()
	server, err := f.dial()
	if err != nil {
		return
	}
	defer server.Close()
	p := &passed{client, server}
	f.mu.Lock()
	f.open[p] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, p)
	}()
	var back sync.WaitGroup
	back.Go(func() { f.copy(p, p.client, p.server, true) })
	f.copy(p, p.server, p.client, false)
	back.Wait()
}

func (f *faulty) copy(p *passed, to, from *net.TCPConn, answers bool) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		f.mu.Lock()
		f.moved = time.Now()
		still := f.still
		var fault func(*passed)
		if answers && n > 0 && f.fault != nil {
			if f.bytes -= n; f.bytes < 0 {
				fault, f.fault = f.fault, nil
			}
		}
		f.mu.Unlock()
		if still != nil {
			<-still
		}
		if fault != nil {
			fault(p)
			return
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				_ = from.Close() // the connection may be closed
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = to.CloseWrite() // the connection may be closed
			} else {
				_ = to.Close()
			}
			return
		}
	}
}
