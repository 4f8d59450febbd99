//go:build unix

package port

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// Times of a holder: how long it and an agent wait, and how often it checks its clients.
const holdTimeout = 2 * time.Second

// The holders of tests have shorter ones.
var (
	handTimeout = 5 * time.Second
	holdSweep   = 5 * time.Second
)

// Holder is the agent's side of a holder, see [Serve].
type Holder struct {
	link *net.UnixConn
	done chan struct{} // closed when the holder has ended
}

// Start starts a holder of the bridge's listener, `EXE agent hold`.
func Start(exe string, l *net.TCPListener) (*Holder, error) {
	cmd := exec.Command(exe, "agent", "hold")
	cmd.Dir = string(filepath.Separator)
	cmd.SysProcAttr = child.Detached()
	link, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	h := &Holder{link: link, done: make(chan struct{})}
	go func() {
		defer close(h.done)
		_ = cmd.Wait() // the next sweep replaces a holder that has failed
		_ = link.Close()
	}()
	if err := child.SendFile(link, l); err != nil {
		return nil, errors.Join(err, link.Close()) // without it the holder ends
	}
	return h, nil
}

// Leave closes the link: the holder is on its own. Before that, Leave waits a moment
// until the holder listens for the next agent or, if it has no clients, has ended.
func (h *Holder) Leave(nobody bool) {
	if nobody {
		select {
		case <-h.done:
		case <-time.After(holdTimeout):
		}
	} else if h.link.SetReadDeadline(time.Now().Add(holdTimeout)) == nil {
		_, _ = h.link.Read(make([]byte, 1)) // the holder says once that it listens; the holder may have ended
	}
	_ = h.link.Close() // the link is closed already where the holder has ended
}

// Ended tells whether the port holder has ended.
func (h *Holder) Ended() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// Tell names the clients that the port is held for. A holder without clients ends.
func (h *Holder) Tell(clients []process.ID) error {
	b, err := json.Marshal(clients)
	if err != nil {
		return err
	}
	if err := h.link.SetWriteDeadline(time.Now().Add(holdTimeout)); err != nil {
		return err
	}
	_, err = h.link.Write(append(b, '\n'))
	return err
}

// Take asks the holder that an earlier agent has left for the bridge's port. The
// listener is nil if there is no holder. A holder that is suspended is ended.
func Take(d home.Dirs) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), handTimeout)
	defer cancel()
	c, err := client.DialSocket(ctx, d.PortSocket())
	if errors.Is(err, client.ErrNotRunning) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if ended, err := client.EndSuspended(c); ended || err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(handTimeout)); err != nil {
		return nil, err
	}
	f, err := child.ReceiveFile(c.(*net.UnixConn))
	if errors.Is(err, unix.ECONNRESET) { // the holder ended before it took the connection
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

// Serve is the holder process. It keeps the bridge's port for the programs that
// have a session: client-go runs its plugin again after a 401, but not after a refused
// connection. The holder has the bridge's listening socket and control
// ([child.Control]), a socket to the agent that started it; it has no key. While that
// agent lives, the holder only receives the list of those programs. Afterwards it waits
// for a connection and starts exe as the next agent. The holder hands the port over to
// the first agent that asks, however that was started, and ends. The holder also ends
// when all those programs have ended, when its socket has lost its name, and with ctx.
func Serve(ctx context.Context, d home.Dirs, exe string, control *os.File) error {
	if err := serve(ctx, d, exe, control); err != nil {
		return fmt.Errorf("hold the bridge's port: %w", err)
	}
	return nil
}

func serve(ctx context.Context, d home.Dirs, exe string, control *os.File) error {
	if err := hsm.Harden(); err != nil {
		return err
	}
	link, err := child.Conn(control)
	if err != nil {
		return err
	}
	defer link.Close()
	held, err := child.ReceiveFile(link)
	if err != nil {
		return err
	}
	defer held.Close()
	l, err := socket.Listen(d.PortSocket())
	if err != nil {
		return err
	}
	defer l.Close()
	name, err := socket.TakeName(d.PortSocket())
	if err != nil {
		return err
	}
	// the next call replaces a file that is left
	defer func() { _ = name.Remove() }()
	// the port is free before the socket ends, so that whoever asks just then can listen
	defer held.Close()
	if _, err := link.Write([]byte{1}); err != nil && !errors.Is(err, unix.EPIPE) { // the agent may have gone
		return err
	}
	var clients atomic.Pointer[[]process.ID]
	told, orphaned := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(orphaned)
		for lists := json.NewDecoder(link); ; {
			var now []process.ID
			if lists.Decode(&now) != nil {
				return // the agent has gone
			}
			clients.Store(&now)
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}()
	handed, wanted := make(chan error, 1), make(chan error, 1)
	go func() { handed <- handOver(l, name, held, orphaned) }()
	go func() {
		<-orphaned
		wanted <- awaitReadable(held)
	}()
	debug.FreeOSMemory()
	if err := child.Shrink(); err != nil {
		return err
	}
	tick := time.NewTicker(holdSweep)
	defer tick.Stop()
	end := orphaned
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-handed:
			return err
		case err := <-wanted:
			if err == nil {
				err = client.Start(ctx, d, exe)
			}
			if err != nil {
				return err
			}
			select {
			case err := <-handed:
				return err
			case <-time.After(handTimeout):
				return errors.New("the new agent did not ask for the port")
			}
		case <-told:
		case <-end:
			end = nil
		case <-tick.C:
		}
		now := clients.Load()
		if now == nil && end != nil { // the agent has not named its clients yet
			continue
		}
		if name.Lost() || now == nil || !slices.ContainsFunc(*now, process.ID.Alive) {
			return nil
		}
	}
}

// handOver gives the port to the first process of this user that asks after the agent
// has gone.
func handOver(l net.Listener, name socket.Name, held *os.File, orphaned <-chan struct{}) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if err = socket.CheckPeer(c); err == nil {
			select {
			case <-orphaned:
				// The next agent may start a holder at once.
				return errors.Join(name.Remove(), child.SendFile(c.(*net.UnixConn), held), c.Close())
			case <-time.After(handTimeout):
			}
		}
		_ = c.Close() // the process gets no port
	}
}

// awaitReadable returns when a client has connected to a listening socket.
func awaitReadable(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if errors.Is(err, unix.EINTR) {
			return false
		}
		failed = err
		return n > 0 || err != nil
	})
	return errors.Join(err, failed)
}
