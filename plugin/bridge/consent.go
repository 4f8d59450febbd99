package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/consent"
	requestbody "github.com/kubehsm/kubehsm/plugin/consent/body"
)

// Question is a request that its enrollment's policy needs a yes for.
type Question struct {
	Enrollment string
	// Client is the process that sends the request. Where Conn is not 0 the system
	// does not tell which one does: it is then the session's, and an answer is for the
	// connection of that number alone.
	Client Client
	Conn   uint64
	// Session is the client of the session, which may have started the process.
	Session Client
	Request consent.Request
	// As says one by one who the request is to be taken for, see [consent.Impersonates].
	As []string
	// Query is the SHA-256 of the URL's query in hex, "" if there is none, and Stream what a
	// request that opens a stream says there, see [requestbody.Stream].
	Query  string
	Stream []string
	// Body tells of the request's body, which it reads; nil if there is none. It is called
	// once at most.
	Body func(ctx context.Context) (Body, error)
}

// errNobody is the answer where nothing can ask.
var errNobody = errors.New("nobody can be asked")

// consent makes sure that a person agrees to the request, where its enrollment's
// policy wants that.
func (s *Server) consent(x exchange, r *http.Request, e *session, up *upstream.Upstream, path string) *refusal {
	if !up.Policy().Asks() {
		return nil
	}
	body := hasBody(r)
	if len(x.own.Trailer) > 0 {
		// Some servers take them for headers: what was judged would not be what they see.
		return &refusal{http.StatusForbidden, DeniedOdd, consent.ErrOdd.Error() + ": it announces trailers"}
	}
	request := consent.Parse(r.Method, path, r.Header, body)
	needs, err := up.Policy().Needs(request)
	if err != nil {
		return &refusal{http.StatusForbidden, DeniedOdd, err.Error()}
	}
	if !needs {
		return nil
	}
	err = errNobody
	if s.Consent != nil {
		q := Question{Enrollment: e.enrollment, Client: x.who.client, Conn: x.who.conn, Session: e.client, Request: request,
			As: consent.Impersonates(r.Header), Stream: requestbody.Stream(request, path)}
		if _, query, _ := strings.Cut(path, "?"); query != "" {
			sum := sha256.Sum256([]byte(query))
			q.Query = hex.EncodeToString(sum[:])
		}
		if body {
			held := s.bodies.hold(x, r)
			q.Body = func(ctx context.Context) (Body, error) { return held.tell(ctx, request) }
		}
		err = s.Consent(r.Context(), q)
	}
	if err == nil {
		return nil
	}
	var wrong *bodyError
	if errors.As(err, &wrong) {
		return &refusal{wrong.code, wrong.reason, err.Error()}
	}
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	message := "no consent to " + request.String() + ": " + err.Error()
	if h := hint.Of(err); h != "" {
		message += " (" + h + ")"
	}
	return &refusal{http.StatusForbidden, DeniedConsent, message}
}

// hasBody tells whether a request has a body. Some clients of HTTP/2 end a GET that
// has none by an empty frame of its own, so of those that do not say the first
// byte is awaited.
func hasBody(r *http.Request) bool {
	if r.ContentLength >= 0 || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return r.ContentLength != 0
	}
	var first [1]byte
	n, err := io.ReadFull(r.Body, first[:])
	if errors.Is(err, io.EOF) {
		r.ContentLength = 0
		return false
	}
	rest := r.Body
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first[:n]), rest), rest}
	return true
}
