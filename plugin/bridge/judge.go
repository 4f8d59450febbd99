package bridge

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
)

// judge decides whose request this is, or why it is refused; the session is
// returned with a refusal too, where it is known.
func (s *Server) judge(r *http.Request) (*session, string, *refusal) {
	if ref := fromBrowser(r); ref != nil {
		return nil, "", ref
	}
	if r.Header["Authorization"] != nil {
		return nil, "", &refusal{http.StatusUnauthorized, DeniedAuthorization,
			"this address takes no bearer token or password (--token, or the kubeconfig user's): the token's key signs in " +
				"here; leave them out"}
	}
	if r.Method == http.MethodConnect {
		return nil, "", &refusal{http.StatusMethodNotAllowed, DeniedMethod, "CONNECT is not served here"}
	}
	if !strings.HasPrefix(r.RequestURI, "/") { // a whole URL, or *
		return nil, "", &refusal{http.StatusNotFound, DeniedPath,
			"a path is asked for, not " + strconv.Quote(cut(r.RequestURI))}
	}
	sess, ref := s.session(r)
	if ref != nil {
		return sess, "", ref
	}
	name, path := loopback.SplitPath(r.RequestURI)
	if name != nil && *name == "" {
		return sess, "", &refusal{http.StatusNotFound, DeniedPath,
			"paths here begin with " + loopback.PathPrefix + "NAME/, as in the kubeconfig that kubehsm writes"}
	}
	if name != nil && *name != sess.enrollment {
		return sess, "", &refusal{http.StatusForbidden, DeniedEnrollment,
			fmt.Sprintf("this certificate is for enrollment %q, not %q: the kubeconfig entry mixes two", sess.enrollment,
				cut(*name))}
	}
	return sess, path, nil
}

// again is the next step after a 401. Most programs run the plugin upon one; some run
// it only when they start.
const again = "run the command again; restart a program that keeps getting this answer"

// lockedWords are for who has a session and no token to go with it.
const lockedWords = "the enrollment is locked; " + again

// unknownWords are for who has a certificate of no session, or of one that does not begin again
// for them.
const unknownWords = "unknown session: the agent was locked or restarted; " + again

// session finds the session of the client certificate. TLS only asks for one
// (RequestClientCert): a failed handshake would be an alert without words, and
// would not make client-go run the plugin again.
func (s *Server) session(r *http.Request) (*session, *refusal) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, &refusal{http.StatusUnauthorized, DeniedNoCertificate,
			"no client certificate came with the request: use the kubeconfig user that kubehsm wrote, without --token or " +
				"--client-certificate"}
	}
	cert := r.TLS.PeerCertificates[0]
	e := s.sessions.find(cert)
	if e == nil {
		if e = s.sessions.ofLocked(cert); e != nil && s.route(e.enrollment) == nil {
			return e, &refusal{http.StatusUnauthorized, DeniedLocked, lockedWords}
		}
	}
	switch {
	case e == nil && cert.Issuer.CommonName != sessionIssuer:
		return nil, &refusal{http.StatusUnauthorized, DeniedForeign,
			"the bridge accepts only client certificates that the agent issued, and the agent did not issue the one of this " +
				"connection: " +
				"leave out --client-certificate, and use the kubeconfig user that kubehsm wrote"}
	case e == nil:
		return nil, &refusal{http.StatusUnauthorized, DeniedUnknown, unknownWords}
	case e.ended(s.sessions.now()):
		return e, &refusal{http.StatusUnauthorized, DeniedExpired,
			"the session has ended: its program has ended, or its time has run out; " + again}
	}
	return e, nil
}

// cut bounds what is repeated of a request.
func cut(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// fromBrowser refuses what a web page could send: a Host that is not loopback
// (DNS rebinding), and headers that only browsers add. A page cannot present a
// session's certificate; what has one may all the same be a page's request that
// kubectl proxy passes on. Browsers name the page's relation to the server in
// Sec-Fetch-Site whenever they send a Sec-Fetch header (Fetch Metadata, section 3);
// Sec-Fetch-Mode alone is from Node's fetch. Some WebSocket clients (Python's)
// name the server itself as Origin, by http too; that is no page's, as nobody
// else has that address.
func fromBrowser(r *http.Request) *refusal {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	switch strings.ToLower(strings.Trim(host, "[]")) {
	case "127.0.0.1", "localhost", "::1":
	default:
		return &refusal{http.StatusForbidden, DeniedHost, "the Host header must name the loopback address"}
	}
	for k, v := range r.Header {
		fetched := strings.HasPrefix(k, "Sec-Fetch-") && k != "Sec-Fetch-Mode"
		ours := len(v) == 1 && (strings.EqualFold(v[0], "https://"+r.Host) || strings.EqualFold(v[0], "http://"+r.Host))
		if fetched || k == "Origin" && !ours {
			return &refusal{http.StatusForbidden, DeniedBrowser, "requests from web pages are not served"}
		}
	}
	return nil
}
