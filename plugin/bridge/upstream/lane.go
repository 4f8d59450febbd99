package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of lanes.
const (
	// maxLanes is how many an upstream has. Further requests at the same time share the HTTP/2
	// connection.
	maxLanes = 4
	// laneIdle is how long a lane is kept without a request. API servers close it after 90 s.
	laneIdle = 30 * time.Second
	// laneWorth is how soon after one request that found no lane another one has to find none for a
	// lane to be dialled.
	laneWorth = 10 * time.Second
	// laneUnacked is how long the API server's system may leave a request unacknowledged. TCP's own bound is
	// about 15 minutes, in which keepalive sends no probe.
	laneUnacked = pingIdle + pingTimeout
	// laneRefused is how long no lane is dialled after a server did not resume a TLS session.
	laneRefused = 10 * time.Minute
)

// lanes are HTTP/1.1 connections beside the pooled HTTP/2 connection, for requests that only read
// and end soon. On a lane, one goroutine writes the request and reads the answer, without
// frames and flow control. A lane never costs a signature: it resumes a TLS session or is not made.
type lanes struct {
	conns *connections
	alive func() bool // whether the API server answers

	mu      sync.Mutex
	idle    []*lane
	open    int // open lanes
	dialing bool
	age     int       // retire counts it up
	lost    int       // lanes of a lower age are beside a connection whose ping got no answer
	pooled  time.Time // when a short read went to the HTTP/2 connection last
	missed  time.Time // when a request found no lane last
	refused time.Time // when no lane could be made last
}

// lane is one connection. Between take and put it belongs to one request.
type lane struct {
	of   *lanes
	age  int
	conn *conn
	head headReader
	w    *bufio.Writer
	due  *time.Timer // runs overdue; guarded by of.mu
	gone bool        // guarded by of.mu
}

// short tells whether a request may use a lane: it only reads, and its answer ends soon. A
// stream needs the HTTP/2 connection, whose pings notice that the server has gone, and so does a
// log, which may be read for hours. HTTP/1.1 cannot express some targets, such as a path that
// begins with two slashes.
func short(r *http.Request) bool {
	path, query := r.URL.Opaque, r.URL.RawQuery
	odd := strings.HasPrefix(path, "//") || strings.ContainsAny(path, " #") || strings.ContainsAny(query, " #")
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Body == nil &&
		r.Header["Te"] == nil && r.Header["Expect"] == nil && !odd &&
		!strings.Contains(path, "/watch") && !strings.Contains(path, "/proxy") && !strings.Contains(path, "/log") &&
		!strings.Contains(query, "watch")
}

// take returns an idle lane, or nil for a request that has to use the HTTP/2 connection. Once in
// pingIdle it returns nil although a lane is idle: an API server closes an HTTP/2 connection on which
// no request has ended for 90 s, even if it is pinged, and another connection may cost a signature.
func (s *lanes) take() *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, n := time.Now(), len(s.idle)
	if n > 0 && now.Sub(s.pooled) < pingIdle {
		l := s.idle[n-1]
		s.idle = s.idle[:n-1]
		l.due.Reset(pingIdle)
		return l
	}
	s.pooled = now
	if n > 0 {
		return nil
	}
	if s.open < maxLanes && !s.dialing && now.Sub(s.missed) < laneWorth && now.Sub(s.refused) > laneRefused {
		s.dialing = true
		go s.dial(s.age)
	}
	s.missed = now
	return nil
}

func (s *lanes) dial(age int) {
	c, err := s.conns.dial(s.conns.ctx, nil, false, "http/1.1")
	s.mu.Lock()
	s.dialing = false
	if err == nil {
		s.open++
	} else {
		s.refused = time.Now()
	}
	s.mu.Unlock()
	if err != nil {
		return
	}
	l := &lane{of: s, age: age, conn: c, head: newHeadReader(c.Conn), w: bufio.NewWriter(c.Conn)}
	l.due = time.AfterFunc(laneIdle, l.overdue) // put sets it anew
	s.put(l)
}

// put makes a lane idle, or closes it if it is older than the last retire.
func (s *lanes) put(l *lane) {
	s.mu.Lock()
	kept := l.age == s.age
	if kept {
		l.due.Reset(laneIdle)
		s.idle = append(s.idle, l)
	}
	s.mu.Unlock()
	if !kept {
		s.end(l)
	}
}

// end closes a lane that is not idle.
func (s *lanes) end(l *lane) {
	s.mu.Lock()
	s.open--
	l.gone = true
	l.due.Stop()
	s.mu.Unlock()
	_ = l.conn.Close() // nothing more is expected of it
}

// retire closes the idle lanes. The others are closed when their request is done.
func (s *lanes) retire() {
	s.mu.Lock()
	old := s.idle
	s.idle = nil
	s.age++
	s.mu.Unlock()
	for _, l := range old {
		s.end(l)
	}
}

// lose retires all lanes, as the API server has left a ping without an answer. overdue cuts those
// that are in use.
func (s *lanes) lose() {
	s.retire()
	s.mu.Lock()
	s.lost = s.age
	s.mu.Unlock()
}

// overdue closes a lane that has been idle for long, and cuts one whose server has gone. A retired
// lane may finish its answer, whatever becomes of new connections: only a lost ping cuts it, or TCP within
// a minute (laneUnacked, keepalive).
func (l *lane) overdue() {
	s := l.of
	s.mu.Lock()
	gone, lost, retired, i := l.gone, l.age < s.lost, l.age < s.age, slices.Index(s.idle, l)
	if i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	s.mu.Unlock()
	switch {
	case gone:
	case i >= 0:
		s.end(l)
	case lost || !retired && !s.alive():
		l.cut()
	default:
		s.mu.Lock()
		if !l.gone {
			l.due.Reset(pingIdle)
		}
		s.mu.Unlock()
	}
}

// cut ends what the lane's request waits for.
func (l *lane) cut() { _ = l.conn.NetConn().Close() }

// roundTrip sends a short request over an idle lane. ok is false if there is none, or the server
// had closed it before it answered: such a request has to go another way.
func (s *lanes) roundTrip(r *http.Request) (resp *http.Response, ok bool, err error) {
	l := s.take()
	if l == nil {
		return nil, false, nil
	}
	stop := context.AfterFunc(r.Context(), l.cut)
	if err = r.Write(l.w); err == nil {
		if err = l.w.Flush(); err == nil {
			resp, err = l.head.next(r)
		}
	}
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		err = errors.New("it switches protocols, which the request did not ask for")
	}
	if err != nil {
		stop()
		s.end(l)
		return nil, l.head.any() || r.Context().Err() != nil, err
	}
	resp.Body = &laneBody{ReadCloser: resp.Body, lane: l, stop: stop, whole: !resp.Close}
	return resp, true, nil
}

// laneBody is the body of an answer. Its end is the end of the request.
type laneBody struct {
	io.ReadCloser
	lane  *lane
	stop  func() bool
	whole bool // whether the lane can take another request after the end
	ended bool
}

// Read implements [io.Reader].
func (b *laneBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

// Close implements [io.Closer].
func (b *laneBody) Close() error {
	if b.lane == nil {
		return nil
	}
	l := b.lane
	b.lane = nil
	if b.stop() && b.ended && b.whole && l.head.rest.Buffered() == 0 {
		l.of.put(l)
	} else {
		l.of.end(l)
	}
	return nil
}
