package flowtest

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
)

// Fate is what becomes of a request, see [Server.Before]: 0 lets it go on, and an HTTP
// status is the answer.
type Fate int

// Further fates: the connection ends, before anything is done, or in the middle of the
// answer that says what was done.
const (
	Dropped Fate = -1
	Cut     Fate = -2
	Held    Fate = -3 // the request is not carried out, and the connection ends when the client has gone
	Last    Fate = -4 // the request is answered, and the connection ends
)

// Forbid refuses what is named as "verb resource", with a subresource as
// "verb resource/sub", from now on. "*" has the cluster say that nothing is allowed.
func (s *Server) Forbid(rights ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rights {
		s.forbidden[r] = true
	}
}

// Allow takes back what [Server.Forbid] does.
func (s *Server) Allow(rights ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rights {
		delete(s.forbidden, r)
	}
}

// Trust has the cluster say of these users and groups that they may do everything; of others it says that they
// may do nothing.
func (s *Server) Trust(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = map[string]bool{}
	for _, n := range names {
		s.others[n] = true
	}
}

// judge says what somebody else may do.
func (s *Server) judge(w http.ResponseWriter, r *http.Request) {
	asked := s.body(r)
	spec, _ := asked["spec"].(Object)
	user, _ := spec["user"].(string)
	groups, _ := spec["groups"].([]any)
	asked["status"] = Object{"allowed": s.others[user] || slices.ContainsFunc(groups, func(g any) bool {
		name, _ := g.(string)
		return s.others[name]
	})}
	s.answer(w, http.StatusCreated, asked)
}

// Break answers everything with an HTTP status from now on; 0 mends it.
func (s *Server) Break(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = status
}

// Before has f say what becomes of each request from now on, which is named as in
// [Server.Forbid]. To block in f delays the request. Nil takes it off.
func (s *Server) Before(f func(right string) Fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// Fail is [Server.Before] for the requests that are named.
func (s *Server) Fail(with Fate, rights ...string) {
	s.Before(func(right string) Fate {
		if slices.Contains(rights, right) {
			return with
		}
		return 0
	})
}

// Gone has nobody answer any more: connections that are open end with the next request.
func (s *Server) Gone() {
	_ = s.Listener.Close() // the listener is closed once more at the end
	s.Before(func(string) Fate { return Dropped })
}

// Asked returns what was asked for so far, named as in [Server.Forbid].
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	t, ok := parse(r.URL.Path)
	right := rightOf(verb(r, t), t)
	if !ok {
		right = "get " + r.URL.Path
	}
	s.mu.Lock()
	s.asked = append(s.asked, right)
	before := s.before
	s.mu.Unlock()
	var fate Fate
	if before != nil {
		fate = before(right)
	}
	switch {
	case fate == Held:
		_, _ = io.Copy(io.Discard, r.Body) // the server notices that the client goes only if it reads
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case fate == Dropped:
		panic(http.ErrAbortHandler)
	case fate == Cut && strings.HasPrefix(right, "watch "):
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case fate == Cut:
		whole := httptest.NewRecorder()
		s.respond(whole, r, 0)
		maps.Copy(w.Header(), whole.Header())
		w.Header().Set("Content-Length", strconv.Itoa(whole.Body.Len()))
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2]) // the client gets no more
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if fate == Last {
		w.Header().Set("Connection", "close")
		fate = 0
	}
	s.respond(w, r, int(fate))
}
