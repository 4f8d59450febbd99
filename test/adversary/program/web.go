//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/test/adversary/play"
)

// patience bounds what the bridge answers at once; a question to a person takes
// longer, and its order says so.
const (
	patience = 20 * time.Second
	// rawPatience is for a request that nobody may be asked about, and that may not be whole.
	rawPatience = 2 * time.Second
)

// bridge is the bridge as clients know it, and our certificate for it.
func (a *adversary) bridge(protocols ...string) (loopback.Endpoint, *tls.Config, error) {
	d, err := dirs()
	if err != nil {
		return loopback.Endpoint{}, nil, err
	}
	ep, err := loopback.Setup(d)
	if err != nil {
		return ep, nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ep.CAPEM)
	c := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", NextProtos: protocols}
	if a.credential != nil {
		pair, err := tls.X509KeyPair(a.credential.Certificate, a.credential.Key)
		if err != nil {
			return ep, nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return ep, c, nil
}

// swap is a connection whose socket can be exchanged.
type swap struct{ net.Conn }

// dial connects to the bridge, or to o.Address in its place.
func (a *adversary) dial(ctx context.Context, o play.Order, protocols ...string) (*tls.Conn, *swap, error) {
	ep, config, err := a.bridge(protocols...)
	if err != nil {
		return nil, nil, err
	}
	address := ep.Address()
	if o.Address != "" {
		address = o.Address
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	under := &swap{c}
	t := tls.Client(under, config)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return t, under, nil
}

// kept is a connection that stays open.
type kept struct {
	conn *tls.Conn
	in   *bufio.Reader
}

func (k *kept) send(o play.Order, out *play.Answer) error {
	r, err := http.NewRequestWithContext(context.Background(), o.Method, "https://127.0.0.1", strings.NewReader(o.Body))
	if err != nil {
		return err
	}
	r.URL.Opaque = "/c/" + o.Enrollment + o.Path
	r.Header = o.Header // to the letter
	if err := r.Write(k.conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(k.in, r)
	if err != nil {
		return err
	}
	out.Code = resp.StatusCode
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // The rest is another protocol's.
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	out.Body = string(b)
	return errors.Join(err, resp.Body.Close())
}

// send sends one request on a connection of its own.
func (a *adversary) send(ctx context.Context, o play.Order, out *play.Answer) error {
	c, _, err := a.dial(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close() // The bridge has answered.
	return (&kept{c, bufio.NewReader(c)}).send(o, out)
}

// keep sends one on a connection that stays open, and again another one on that.
func (a *adversary) keep(ctx context.Context, o play.Order, out *play.Answer) error {
	c, _, err := a.dial(ctx, o)
	if err != nil {
		return err
	}
	a.idle = &kept{c, bufio.NewReader(c)}
	return a.idle.send(o, out)
}

func (a *adversary) again(_ context.Context, o play.Order, out *play.Answer) error {
	if a.idle == nil {
		return errors.New("no connection is open")
	}
	if err := a.idle.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return a.idle.send(o, out)
}

// raw sends o.Text to the byte over HTTP/1.1, and reads the status of the answer.
func (a *adversary) raw(ctx context.Context, o play.Order, out *play.Answer) error {
	c, _, err := a.dial(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close() // The bridge has answered.
	if err := c.SetDeadline(time.Now().Add(rawPatience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, o.Text); err != nil {
		return err
	}
	return readAll(bufio.NewReader(c), out)
}

// readAll reads the answers to what may have been taken for several requests.
func readAll(in *bufio.Reader, out *play.Answer) error {
	for {
		resp, err := http.ReadResponse(in, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out.Done = append(out.Done, resp.Status)
		if out.Code == 0 {
			out.Code = resp.StatusCode
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		out.Body += string(b)
		goesOn := err == nil && !resp.Close // an answer that is cut counts, as the last one
		if !goesOn || in.Buffered() == 0 {
			return nil
		}
	}
}

// resume connects, sends a request so that tickets come, connects again, and says
// whether the second connection took up the first one's session.
func (a *adversary) resume(ctx context.Context, o play.Order, out *play.Answer) error {
	ep, config, err := a.bridge()
	if err != nil {
		return err
	}
	config.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for range 2 {
		c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", ep.Address())
		if err != nil {
			return err
		}
		t := c.(*tls.Conn)
		var answer play.Answer
		err = (&kept{t, bufio.NewReader(t)}).send(o, &answer)
		if t.ConnectionState().DidResume {
			out.Done = append(out.Done, "a TLS session was taken up again")
		}
		out.Code = answer.Code
		if err = errors.Join(err, t.Close()); err != nil {
			return err
		}
	}
	return nil
}

// flight sends a request while no process has the connection's socket open: the
// kernel holds the request back for a moment (TCP_CORK, tcp(7)), and until then the
// socket is on its way over a unix socket that nobody reads.
func (a *adversary) flight(ctx context.Context, o play.Order, out *play.Answer) error {
	c, under, err := a.dial(ctx, o)
	if err != nil {
		return err
	}
	tcp := under.Conn.(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var corked error
	err = raw.Control(func(fd uintptr) { corked = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1) })
	if err = errors.Join(err, corked); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c, "%s /c/%s%s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: %s\r\nConnection: close\r\n\r\n",
		o.Method, o.Enrollment, o.Path, o.Header["User-Agent"][0])
	if err != nil {
		return err
	}
	away, err := sendAway(tcp)
	if err != nil {
		return err
	}
	<-time.After(time.Second) // the kernel sends what it held after 200 ms
	back, err := away()
	if err != nil {
		return err
	}
	under.Conn = back
	defer back.Close() // The bridge has answered.
	if err := back.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return readAll(bufio.NewReader(c), out)
}

// sendAway sends a connection's socket over a unix socket and closes it here; what it
// returns takes it back.
func sendAway(tcp *net.TCPConn) (back func() (net.Conn, error), err error) {
	f, err := tcp.File()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0)
	if err = errors.Join(err, f.Close(), tcp.Close()); err != nil {
		return nil, err
	}
	return func() (net.Conn, error) {
		one, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
		_, n, _, _, err := unix.Recvmsg(pair[1], one, oob, unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			return nil, err
		}
		messages, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil {
			return nil, err
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return nil, err
		}
		file := os.NewFile(uintptr(fds[0]), "socket")
		defer file.Close() // FileConn has made a copy
		return net.FileConn(file)
	}, nil
}

// relay passes bytes between a port of its own and the bridge until the process ends;
// the answer's body is its address.
func (a *adversary) relay(_ context.Context, _ play.Order, out *play.Answer) error {
	ep, _, err := a.bridge()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	out.Body = l.Addr().String()
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", ep.Address())
			if err != nil {
				from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); to.Close() }()   // either end may close
			go func() { _, _ = io.Copy(from, to); from.Close() }() // either end may close
		}
	}()
	return nil
}
