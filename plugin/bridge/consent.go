package bridge

import (
	"context"
	"errors"
	"net/http"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/consent"
)

// Question is a request that its enrolment's policy wants a yes for.
type Question struct {
	Enrollment string
	Client     Client
	Request    consent.Request
}

// errNobody is the answer where nothing can ask.
var errNobody = errors.New("nobody can be asked")

// consent makes sure that a person agrees to the request, where its enrolment's
// policy wants that.
func (s *Server) consent(r *http.Request, e *session, up *Upstream, path string) *refusal {
	if !up.policy.Asks() {
		return nil
	}
	if len(r.Trailer) > 0 {
		// Some servers take them for headers: what was judged would not be what they see.
		return &refusal{http.StatusForbidden, DeniedOdd, consent.ErrOdd.Error() + ": it announces trailers"}
	}
	request := consent.Parse(r.Method, path, r.Header, r.ContentLength != 0)
	needs, err := up.policy.Needs(request)
	if err != nil {
		return &refusal{http.StatusForbidden, DeniedOdd, err.Error()}
	}
	if !needs {
		return nil
	}
	err = errNobody
	if s.Consent != nil {
		err = s.Consent(r.Context(), Question{Enrollment: e.enrollment, Client: e.client, Request: request})
	}
	if err == nil {
		return nil
	}
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	message := "no consent to " + request.String() + ": " + err.Error()
	if h := hsm.Hint(err); h != "" {
		message += " (" + h + ")"
	}
	return &refusal{http.StatusForbidden, DeniedConsent, message}
}

// clientKey carries the client whose request it is.
type clientKey struct{}

// clientContext is a request's context with its client, cheaper than
// [context.WithValue] and a box for it.
type clientContext struct {
	context.Context
	client Client
}

func (c *clientContext) Value(key any) any {
	if _, ok := key.(clientKey); ok {
		return c.client
	}
	return c.Context.Value(key)
}

// ClientOf returns the client whose request led to a call of
// [UpstreamOptions.Signer]; ok is false where none did.
func ClientOf(ctx context.Context) (c Client, ok bool) {
	c, ok = ctx.Value(clientKey{}).(Client)
	return c, ok
}
