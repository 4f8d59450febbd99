package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/bridge/status"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// Serve carries one judged request of a client; path is its target without our
// prefix, to the byte. An error says why there was no answer, and none was begun. It
// panics with [http.ErrAbortHandler] if the client has gone, or an answer was cut
// short. It is leaner than httputil.ReverseProxy: the server's header map and
// request are used again instead of cloned, and buffers are large and pooled.
func (u *Upstream) Serve(w http.ResponseWriter, r *http.Request, path string, client process.ID) error {
	u.record.begin()
	defer u.record.end()
	upgrade := ""
	if r.ProtoMajor == 1 { // HTTP/2 has no such thing (RFC 9113 section 8.2.2), nor a connection to hand over
		upgrade = upgradeType(r.Header)
	}
	out := u.outgoing(r, path, client)
	if upgrade != "" {
		return u.tunnel(w, r, out, upgrade)
	}
	resp, err := u.transport.RoundTrip(out)
	if err != nil {
		return u.failure(r, err)
	}
	defer resp.Body.Close()
	u.answered(resp)
	line, err := copyResponse(w, resp)
	if err != nil && !u.endWatch(w, r, resp, line, err) {
		// Half an answer must not look whole: the stream is reset.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// endWatch ends a watch whose connection was cut as an API server ends one: by the
// end of the stream, which makes clients watch again. An API server that dies
// takes its connections along, and clients end their watches in silence; a reset
// they show as an event that cannot be read. An event tells its own end (JSON,
// CBOR, frames with a length), so half of one does not look whole. Where the
// agent has cut it, an event of type ERROR says why, if that can be read: where
// events are JSON and line says that none is half sent. endWatch tells whether the
// stream may end so; what the API server itself has reset may not.
func (u *Upstream) endWatch(w http.ResponseWriter, r *http.Request, resp *http.Response, line bool, cut error) bool {
	_, path := loopback.SplitPath(r.RequestURI)
	verb := consent.Parse(r.Method, path, nil, false).Verb
	if verb != "watch" || resp.StatusCode != http.StatusOK || errors.As(cut, new(http2.StreamError)) {
		return false
	}
	contentType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if line && u.conns.ctx.Err() != nil && contentType == "application/json" && resp.Header["Content-Encoding"] == nil {
		why := "the watch was ended: " + context.Cause(u.conns.ctx).Error()
		_, err := fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", status.JSON(http.StatusUnauthorized, why))
		return err == nil
	}
	return true
}

// outgoing turns the inbound request into the outbound one. The header map is
// the server's own for this request, so it may be changed.
func (u *Upstream) outgoing(r *http.Request, path string, client process.ID) *http.Request {
	out := r.WithContext(&clientContext{r.Context(), client})
	out.URL = u.target(path)
	out.RequestURI = ""
	out.Host = u.host
	out.Close = false
	removeHopByHop(out.Header)
	if out.Header["User-Agent"] == nil {
		out.Header["User-Agent"] = []string{""} // else the transport names itself
	}
	if out.ContentLength == 0 {
		out.Body = nil // without a body the transport may retry on a new connection
	}
	return out
}

// target builds a URL that is sent exactly as path: Opaque is written as it is,
// where Path would be decoded and encoded again.
func (u *Upstream) target(path string) *url.URL {
	path, query, _ := strings.Cut(u.prefix+path, "?")
	t := &url.URL{Scheme: "https", Host: u.host, Opaque: path, RawQuery: query}
	if strings.HasPrefix(path, "//") { // else it would be read as a host
		t.Opaque = "//" + u.host + path
	}
	return t
}

// answered watches for the API server's 401. It passes to the client, which
// runs the plugin again; the next prepare finds out why.
func (u *Upstream) answered(resp *http.Response) {
	u.record.lastAnswer.Store(time.Now().UnixNano())
	if resp.StatusCode == http.StatusUnauthorized && !u.rejected.Swap(true) {
		u.record.note(ErrUnauthorized)
	}
}

// failure gives what a request got no answer for its kind.
func (u *Upstream) failure(r *http.Request, err error) error {
	if r.Context().Err() != nil && !u.Closed() {
		panic(http.ErrAbortHandler) // the client has gone
	}
	err = u.roundTripError(r.Context(), err)
	u.record.note(err)
	return err
}

// copyResponse passes status, headers, body and trailers. A body of unknown
// length may be a watch or a log: what has come is flushed at once.
// line tells, where the body failed, whether it ended with a whole line.
func copyResponse(w http.ResponseWriter, resp *http.Response) (line bool, err error) {
	h := w.Header()
	removeHopByHop(resp.Header)
	for k, v := range resp.Header {
		h[k] = v
	}
	if resp.Header["Content-Type"] == nil {
		h["Content-Type"] = nil // no sniffing
	}
	announced := len(resp.Trailer)
	for k := range resp.Trailer {
		h.Add("Trailer", k)
	}
	w.WriteHeader(resp.StatusCode)
	if line, err := copyBody(w, resp.Body, resp.ContentLength < 0); err != nil {
		return line, err
	}
	for k, v := range resp.Trailer {
		if announced == len(resp.Trailer) {
			h[k] = v
		} else {
			h[http.TrailerPrefix+k] = v
		}
	}
	return true, nil
}

// copyBuffers hold what is on its way; 64 KiB is four HTTP/2 frames.
var copyBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func copyBody(w http.ResponseWriter, body io.Reader, stream bool) (line bool, err error) {
	line = true
	var flusher http.Flusher
	if stream {
		if flusher, _ = w.(http.Flusher); flusher != nil {
			flusher.Flush() // a watcher waits for the headers
		}
	}
	buf := copyBuffers.Get().(*[64 << 10]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := body.Read(buf[:])
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return false, werr
			}
			line = buf[n-1] == '\n'
			if flusher != nil {
				flusher.Flush()
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return line, nil
		case err != nil:
			return line, err
		}
	}
}

// hopByHop are the headers of one connection (RFC 9110 section 7.6.1), in Go's
// canonical form.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate",
	"Proxy-Authorization", "Transfer-Encoding", "Upgrade"}

func removeHopByHop(h http.Header) {
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)); name != "" {
				delete(h, name)
			}
		}
	}
	for _, k := range hopByHop {
		delete(h, k)
	}
	if te := h["Te"]; te != nil && !(len(te) == 1 && te[0] == "trailers") {
		delete(h, "Te")
	}
}

// upgradeType is the protocol that the client wants to change to, or "".
func upgradeType(h http.Header) string {
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(name), "upgrade") {
				return h.Get("Upgrade")
			}
		}
	}
	return ""
}
