package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
)

// tunnel carries a request that changes its protocol: exec, attach, cp and
// port-forward over SPDY or WebSocket. It has a connection of its own, HTTP/1.1,
// with the TLS tickets of the pooled ones, so it costs no signature. After the
// server's 101 the bytes pass both ways until both have ended.
func (u *Upstream) tunnel(w http.ResponseWriter, r, out *http.Request, protocol string) error {
	up, err := u.conns.dial(r.Context(), u.o.Signer, false, "http/1.1")
	if err != nil {
		return u.failure(r, err)
	}
	defer up.Close()
	stop := context.AfterFunc(r.Context(), func() { _ = up.Close() }) // until 101 the client may leave
	defer stop()
	out.Header["Connection"] = []string{"Upgrade"}
	out.Header["Upgrade"] = []string{protocol}
	if err := out.Write(up); err != nil {
		return u.failure(r, err)
	}
	resp, br, err := readHead(up, out)
	if err != nil {
		return u.failure(r, err)
	}
	defer resp.Body.Close()
	u.answered(resp)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		if _, err := copyResponse(w, resp); err != nil {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	stop()
	client, brw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		u.o.Log.Warn("tunnel", "enrollment", u.o.Enrollment.Name, "error", err)
		panic(http.ErrAbortHandler)
	}
	defer client.Close()
	if err := writeHead(brw.Writer, resp); err != nil {
		return nil // the client has gone
	}
	splice(client, brw.Reader, up, br)
	return nil
}

// splice copies both ways. An end of one direction is passed on as such; an
// error of either ends both. It returns when both are done.
func splice(client net.Conn, fromClient io.Reader, up *conn, fromUp io.Reader) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay(up, fromClient, client)
	}()
	relay(client, fromUp, up)
	<-done
}

// relay copies until from ends, then closes to for writing; on an error it
// closes both.
func relay(to net.Conn, from io.Reader, fromConn net.Conn) {
	buf := copyBuffers.Get().(*[64 << 10]byte)
	defer copyBuffers.Put(buf)
	_, err := io.CopyBuffer(onlyWriter{to}, onlyReader{from}, buf[:])
	if half, ok := to.(interface{ CloseWrite() error }); err == nil && ok {
		err = half.CloseWrite()
	}
	if err != nil {
		_ = to.Close()
		_ = fromConn.Close()
	}
}

// onlyWriter and onlyReader hide ReadFrom and WriteTo, which would allocate
// buffers of their own.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
