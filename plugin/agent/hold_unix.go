//go:build unix

package agent

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

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// Bounds of what a holder and an agent wait for.
const (
	handPatience = 5 * time.Second
	holdSweep    = 5 * time.Second
)

// hold is the agent's side of a holder, see [ServeHold].
type hold struct {
	link *net.UnixConn
	done chan struct{} // closed when the holder has ended
}

// startHold starts a holder of the bridge's listener, `EXE agent hold`.
func startHold(exe string, l *net.TCPListener) (_ *hold, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	link, err := unixConn(ours)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, link.Close())
		}
	}()
	if err := sendFile(link, l); err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, "agent", "hold")
	cmd.Dir = string(filepath.Separator)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	h := &hold{link: link, done: make(chan struct{})}
	go func() {
		defer close(h.done)
		_ = cmd.Wait() // where it has failed, the next sweep starts another one
		_ = link.Close()
	}()
	return h, nil
}

// leave lets the holder know that it is alone. The next agent finds the holder, or,
// if it holds for nobody, its end; a moment is waited for that.
func (h *hold) leave(nobody bool) {
	if nobody {
		select {
		case <-h.done:
		case <-time.After(statePatience):
		}
	} else if h.link.SetReadDeadline(time.Now().Add(statePatience)) == nil {
		_, _ = h.link.Read(make([]byte, 1)) // the new agent says once that it listens; it may have ended
	}
	_ = h.link.Close() // see above
}

func (h *hold) ended() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// tell says for whom the port is held. A holder for nobody ends.
func (h *hold) tell(clients []process.ID) error {
	b, err := json.Marshal(clients)
	if err != nil {
		return err
	}
	if err := h.link.SetWriteDeadline(time.Now().Add(statePatience)); err != nil {
		return err
	}
	_, err = h.link.Write(append(b, '\n'))
	return err
}

// takePort asks the holder that an earlier agent has left for the bridge's port; nil
// if there is none. A holder that is suspended is ended.
func takePort(d home.Dirs) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), handPatience)
	defer cancel()
	c, err := dialSocket(ctx, holdSocket(d))
	if errors.Is(err, ErrNotRunning) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if ended, err := endSuspended(c); ended || err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(handPatience)); err != nil {
		return nil, err
	}
	f, err := receiveFile(c.(*net.UnixConn))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

// ServeHold is the holder process. It keeps the bridge's port for the programs that
// have a session, as a connection that is refused does not make client-go run its
// plugin again, where a 401 does. It has the bridge's listening socket and a socket
// to the agent that started it, control ([WorkerControl]); it has no key. While that
// agent lives, the holder only hears for whom the port is held. Afterwards it waits for a
// connection and starts exe as the next agent. Whoever starts an agent, the holder hands the
// port over to it, and ends; so it does when all those programs have ended, when nobody
// finds its socket any more, and with ctx.
func ServeHold(ctx context.Context, d home.Dirs, exe string, control *os.File) error {
	if err := serveHold(ctx, d, exe, control); err != nil {
		return fmt.Errorf("hold the bridge's port: %w", err)
	}
	return nil
}

func serveHold(ctx context.Context, d home.Dirs, exe string, control *os.File) error {
	if err := harden(); err != nil {
		return err
	}
	link, err := unixConn(control)
	if err != nil {
		return err
	}
	defer link.Close()
	held, err := receiveFile(link)
	if err != nil {
		return err
	}
	defer held.Close()
	l, err := socket.Listen(holdSocket(d))
	if err != nil {
		return err
	}
	defer l.Close()
	name, err := socket.TakeName(holdSocket(d))
	if err != nil {
		return err
	}
	defer func() { _ = name.Remove() }()                                            // the next call replaces a file that is left
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
	if err := shrink(); err != nil {
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
				err = start(ctx, d, exe)
			}
			if err != nil {
				return err
			}
			select {
			case err := <-handed:
				return err
			case <-time.After(handPatience):
				return errors.New("the new agent did not ask for the port")
			}
		case <-told:
		case <-end:
			end = nil
		case <-tick.C:
		}
		now := clients.Load()
		if now == nil && end != nil { // the agent is about to say
			continue
		}
		if name.Lost() || now == nil || !slices.ContainsFunc(*now, process.ID.Alive) {
			return nil
		}
	}
}

// handOver gives the port to the first process of our user that asks once the agent
// is gone.
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
				return errors.Join(name.Remove(), sendFile(c.(*net.UnixConn), held), c.Close())
			case <-time.After(handPatience):
			}
		}
		_ = c.Close() // whoever it is may not have it
	}
}

// awaitReadable returns when somebody has connected to a listening socket.
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
