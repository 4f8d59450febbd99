package bridge

import (
	"errors"
	"net/http"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/bridge/status"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
)

// Denial is a request that the bridge has turned away. Nothing in it is the
// request's own text.
type Denial struct {
	// Code is the HTTP status of the answer.
	Code int
	// Reason is one of the Denied constants.
	Reason string
	// Enrollment and Client are those of the session that the request came with;
	// zero where it had none. For DeniedProcess the client is the process whose
	// connection it was, zero if none was found.
	Enrollment string
	Client     Client
}

// Why a request was turned away. The words are stable.
const (
	DeniedUser          = "other-user"        // the connection is another user's, or it cannot be told whose
	DeniedHost          = "host"              // the Host header is not loopback's (DNS rebinding)
	DeniedBrowser       = "browser"           // a web page sent it
	DeniedAuthorization = "authorization"     // the request carries a token or a password
	DeniedMethod        = "method"            // CONNECT
	DeniedPath          = "path"              // the target is no path
	DeniedNoCertificate = "no-certificate"    // no client certificate was shown
	DeniedForeign       = "other-certificate" // no agent has issued the client certificate
	DeniedUnknown       = "unknown-session"   // the certificate is not one of this agent's
	DeniedExpired       = "expired-session"   // the session's client or its time has ended
	DeniedProcess       = "other-process"     // the session is another process's
	DeniedHidden        = "hidden-process"    // the kernel does not show whose the connection is
	DeniedEnrollment    = "other-enrollment"  // the session is for another enrollment
	DeniedLocked        = "locked"            // the enrollment was locked meanwhile
	DeniedConsent       = "no-consent"        // the policy needs a yes, and there was none
	DeniedBody          = "body"              // The body did not arrive as announced, or not in time.
	DeniedOdd           = "not-understood"    // the policy must judge the request, which can be read in two ways
)

// refusal is the answer to a request that is not carried.
type refusal struct {
	code    int
	reason  string // a Denied constant; "" if the request is not refused, but cannot be judged now
	message string
}

// refuse answers a request that is not served and says so to whom it concerns.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e *session, ref *refusal) {
	s.log.Info("refused", "code", ref.code, "why", ref.message)
	if s.Denied != nil && ref.reason != "" {
		d := Denial{Code: ref.code, Reason: ref.reason}
		if e != nil {
			d.Enrollment, d.Client = e.enrollment, e.client
		}
		if ref.reason == DeniedProcess {
			d.Client = lineOf(r.Context()).owner
		}
		s.Denied(d)
	}
	status.Write(w, r, ref.code, ref.message)
}

// fail answers a request that the upstream had no answer for, in words. What a person
// must mend gets a 401, which makes client-go run the plugin again: the plugin can ask.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	message := err.Error()
	if h := hint.Of(err); h != "" {
		message += " (" + h + ")"
	}
	code := http.StatusServiceUnavailable
	if needsPerson(err) {
		code = http.StatusUnauthorized
	} else if upstream.Repeatable(r.Method, err) {
		// Clients that repeat a request when their own connection breaks also repeat it
		// when they see this header.
		w.Header().Set("Retry-After", "1")
	}
	status.Write(w, r, code, message)
}

// needsPerson tells whether err is one that the next run of the plugin can mend.
func needsPerson(err error) bool {
	for _, e := range []error{hsm.ErrPINRequired, hsm.ErrNoToken, hsm.ErrRemoved, hsm.ErrTouchTimeout,
		hsm.ErrNoTerminal, hsm.ErrCancelled, hsm.ErrBusy, upstream.ErrNotSigned, upstream.ErrClosed,
		upstream.ErrUnauthorized} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
