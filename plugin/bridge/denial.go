package bridge

import "net/http"

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
	DeniedEnrollment    = "other-enrollment"  // the session is for another enrollment
	DeniedLocked        = "locked"            // the enrollment was locked meanwhile
	DeniedConsent       = "no-consent"        // the policy wants a yes, and there was none
	DeniedOdd           = "not-understood"    // the policy must judge the request, which can be read in two ways
)

// refuse answers a request that is not served and says so to whom it concerns.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e *session, ref *refusal) {
	s.log.Info("refused", "code", ref.code, "why", ref.message)
	if s.Denied != nil {
		d := Denial{Code: ref.code, Reason: ref.reason}
		if e != nil {
			d.Enrollment, d.Client = e.enrollment, e.client
		}
		if ref.reason == DeniedProcess {
			d.Client = lineOf(r.Context()).owner
		}
		s.Denied(d)
	}
	ref.write(w, r)
}
