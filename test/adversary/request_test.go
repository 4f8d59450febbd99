//go:build linux && cgo

package adversary

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/kubehsm/kubehsm/test/adversary/play"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// requestAttacks say one thing to the bridge and another one to the API server, from a
// program that has a session of its own and nobody's yes.
var requestAttacks = []attack{
	{name: "odd-requests", run: oddRequests},
	{name: "odd-frames", run: oddFrames},
	{name: "dry-runs", run: dryRuns},
	{name: "tunnels", run: tunnels},
	{name: "change-as-a-connection", run: changeAsAConnection},
	{name: "aggregated", run: aggregatedAPI},
}

// text is a request of HTTP/1.1: the request line without the protocol, then header
// lines, then the body. In it NS stands for the path of the namespace and MAP for that
// of the configmap b, both with the bridge's own prefix.
type text struct {
	line    string
	headers string // lines, each with "\n"
	body    string // sent with its length, unless a header speaks of the transfer
	look    bool   // A mere look may be served.
}

func (t text) on(s *stage) string {
	prefix := "/c/" + lab.Enrolled
	ns := prefix + "/api/v1/namespaces/" + s.space
	line := strings.NewReplacer("MAP", ns+"/configmaps/b", "NS", ns, "ROOT", prefix).Replace(t.line)
	head := line + " HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: " + s.mark + "\r\n" +
		strings.ReplaceAll(t.headers, "\n", "\r\n")
	lower := strings.ToLower(t.headers)
	if t.body != "" && !strings.Contains(lower, "transfer-encoding") && !strings.Contains(lower, "content-length") {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(t.body))
	}
	return head + "\r\n" + t.body
}

// odd are requests that somebody may read as a deletion, a creation or a connection,
// and others as something harmless: of each kind some (package consent tests more).
var odd = []text{
	// the path
	{line: "GET NS/pods/web/x/../exec?command=id&stdout=1"},
	{line: "GET //api/v1/namespaces/default/pods/web/exec?command=id"},
	{line: "GET NS/pods/web%2fexec?command=id"},
	{line: "GET NS/pods/web%5cexec?command=id"},
	{line: "GET NS/pods/web;x=1/exec?command=id"},
	{line: "GET NS/pods/web%3fexec"},
	{line: "GET NS/pods/web/%65xec?command=id"}, // a plain letter in disguise: read as exec
	{line: "GET NS/pods/web%23/exec?command=id"},
	{line: "GET NS/configmaps/b%25"},
	{line: "DELETE NS/configmaps/b%2e"},
	{line: "DELETE MAP/"},
	{line: "DELETE MAP?"},
	{line: "DELETE MAP%20"},
	{line: "DELETE NS/configmaps/?fieldSelector=metadata.name%3Db"},
	{line: "DELETE NS/configmaps?watch=true"},
	{line: "GET ROOT/api/v1/proxy/namespaces/default/pods/web"},
	{line: "POST ROOT/api/v1/watch/namespaces/default/configmaps", body: "{}"},
	{line: "DELETE ROOT/api/v1/watch/namespaces/default/configmaps/b"},
	{line: "POST NS/pods/web/exec/?command=id"},
	{line: "POST NS/serviceaccounts/default/token?dryRun=All", body: "{}"},
	// the method
	{line: "CONNECT 127.0.0.1:6443"},
	{line: "CONNECT NS/pods/web/exec"},
	{line: "delete MAP"},
	{line: "TRACE MAP"},
	{line: "QUERY MAP"},
	{line: "GET MAP", headers: "X-HTTP-Method-Override: DELETE\n"},
	{line: "GET ROOT/version", headers: "X-Original-URL: /api/v1/namespaces\n"},
	// the form of the target, the host
	{line: "GET https://127.0.0.1/c/" + lab.Enrolled + "/api/v1/namespaces"},
	{line: "DELETE http://127.0.0.1MAP"},
	{line: "OPTIONS *"},
	{line: "GET ROOT/../api/v1/namespaces"},
	{line: "GET /c/" + lab.Enrolled + "%2f/api/v1/namespaces"},
	{line: "GET /c/other/api/v1/namespaces"},
	// the body
	{line: "GET MAP", body: `{"kind":"DeleteOptions","apiVersion":"v1"}`},
	{line: "HEAD NS/configmaps", body: "{}"},
	{line: "GET NS/configmaps", headers: "Transfer-Encoding: chunked\n", body: "2\r\n{}\r\n0\r\n\r\n"},
	{line: "POST NS/configmaps?dryRun=All", headers: "Transfer-Encoding: chunked\nTrailer: Impersonate-User\n",
		body: "2\r\n{}\r\n0\r\nImpersonate-User: root\r\n\r\n"},
	{line: "POST NS/configmaps?dryRun=All", headers: "Trailer: X-HTTP-Method-Override\nTransfer-Encoding: chunked\n",
		body: "2\r\n{}\r\n0\r\nX-HTTP-Method-Override: DELETE\r\n\r\n"},
	{line: "GET MAP", headers: "Transfer-Encoding: chunked\nContent-Length: 5\n",
		body: "0\r\n\r\nDELETE /api/v1/namespaces HTTP/1.1\r\n\r\n",
		look: true},
	{line: "GET MAP", headers: "Transfer-Encoding: xchunked\n", body: "0\r\n\r\n"},
	{line: "GET MAP", headers: "Transfer-Encoding: chunked, identity\n", body: "0\r\n\r\n"},
	{line: "GET MAP", headers: "Content-Length: 5\nContent-Length: 6\n", body: "abcdef"},
	{line: "GET MAP", headers: "Content-Length: +5\n", body: "abcde"},
	{line: "GET MAP", headers: "Content-Length : 5\n", body: "abcde"},
	// other headers
	{line: "GET MAP", headers: "Connection: close, Accept\n"},
	{line: "GET MAP", headers: "Connection: Impersonate-User\nImpersonate-User: root\n"},
	{line: "GET MAP", headers: "Authorization: Bearer x\n"},
	{line: "GET MAP", headers: "Impersonate-User: root\n"},
	{line: "GET MAP", headers: "impersonate-extra-scopes: view\n"},
	{line: "GET MAP", headers: "Impersonate-Uid: 0\n"},
	{line: "GET MAP", headers: "Impersonate-User : root\n"},
	{line: "GET MAP", headers: " Impersonate-User: root\n", look: true}, // the end of the line before
}

// oddRequests: none of them is guessed at.
func oddRequests(s *stage) {
	thief := s.player(suite.program).signIn()
	arrived := 0
	for _, o := range odd {
		a := thief.do(play.Order{Do: "raw", Text: o.on(s)})
		for _, status := range a.Done {
			if status[0] != '4' && status[0] != '5' && !o.look {
				s.Wrong("%q, %q, %q: %s", o.line, o.headers, o.body, status)
			}
		}
		all := s.arrivals()
		for _, each := range all[arrived:] {
			if !o.look || each.Verb != "get" || each.ImpersonatedUser != nil {
				s.Wrong("%q, %q, %q has reached the API server: %+v", o.line, o.headers, o.body, each)
			}
		}
		arrived = len(all)
	}
	s.counts(thief, arrived)
	s.stands("b", "odd requests")
}

// counts holds that a request of the adversary's which has reached the API server is
// seen: a plain look, which needs no yes.
func (s *stage) counts(p *player, arrived int) {
	if a := p.did(play.Order{Do: "send", Method: "GET", Path: s.configmap("b")}); a.Code != http.StatusOK {
		s.Wrong("a plain look: %+v", a)
	}
	if n := len(s.arrivals()); n != arrived+1 {
		s.Fatalf("the API server's audit log shows %d requests, not %d", n, arrived+1)
	}
}

// oddFrames: HTTP/2 has ways of its own to say two things.
func oddFrames(s *stage) {
	thief := s.player(suite.program).signIn()
	path := "/c/" + lab.Enrolled + s.configmap("b")
	fields := func(method, path string, more ...[2]string) [][2]string {
		return append([][2]string{{":method", method}, {":scheme", "https"}, {":authority", "127.0.0.1"}, {":path", path},
			{"user-agent", s.mark}}, more...)
	}
	all := []play.Order{
		{Fields: fields("DELETE", path)},
		{Fields: fields("GET", path, [2]string{":method", "DELETE"})},
		{Fields: append([][2]string{{":path", "/c/" + lab.Enrolled + "/version"}}, fields("GET", path)...)},
		{Fields: fields("GET", path+" HTTP/1.1\r\nX: y")},
		{Fields: fields("GET", "/c/"+lab.Enrolled+"/version?x= HTTP/1.1\r\n\r\nDELETE "+path)},
		{Fields: fields("GET", path+"#/exec")},
		{Fields: fields("GET", path, [2]string{"host", "elsewhere"}, [2]string{"x-http-method-override", "DELETE"})},
		{Fields: fields("GET", path, [2]string{"connection", "upgrade"}, [2]string{"upgrade", "websocket"})},
		{Fields: fields("GET", path, [2]string{"transfer-encoding", "chunked"}), Body: "x"},
		{Fields: fields("GET", path), Body: "x"},
		{Fields: fields("GET", path, [2]string{"Impersonate-User", "root"})},
		{Fields: fields("GET", path, [2]string{"impersonate-user", "root"})},
		{Fields: fields("CONNECT", path, [2]string{":protocol", "websocket"})},
		{Fields: [][2]string{{":method", "CONNECT"}, {":authority", "127.0.0.1:6443"}, {"user-agent", s.mark}}},
		{Fields: fields("POST", "/c/"+lab.Enrolled+"/api/v1/namespaces/"+s.space+"/configmaps?dryRun=All",
			[2]string{"trailer", "impersonate-user"}), Body: "{}", Rest: [][2]string{{"impersonate-user", "root"}}},
		{Fields: fields("POST", "/c/"+lab.Enrolled+"/api/v1/namespaces/"+s.space+"/configmaps"), Body: "{}"},
		{Fields: fields("G\tET", path)},
		{Fields: fields("GET", "api/v1/namespaces")},
		{Fields: fields("GET", "https://127.0.0.1"+path)},
	}
	arrived := 0
	for _, o := range all {
		o.Do = "frames"
		a := thief.do(o)
		if a.Code != 0 && a.Code < 400 {
			s.Wrong("%q: %+v", o.Fields, a)
		}
		if seen := s.arrivals(); len(seen) != arrived {
			s.Wrong("%q has reached the API server: %+v", o.Fields, seen[arrived:])
			arrived = len(seen)
		}
	}
	s.counts(thief, arrived)
	s.stands("b", "odd frames")
}

// dryRuns: what is said to be one and changes something all the same.
func dryRuns(s *stage) {
	thief := s.player(suite.program).signIn()
	as := map[string][]string{"Impersonate-User": {"root"}}
	json := map[string][]string{"Content-Type": {"application/json"}}
	maps, b := "/api/v1/namespaces/"+s.space+"/configmaps", s.configmap("b")
	account := "/api/v1/namespaces/" + s.space + "/serviceaccounts/default"
	reviews := "/apis/authorization.k8s.io/v1/"
	for what, o := range map[string]play.Order{
		"a deletion whose options are in the body": {Method: "DELETE", Path: b + "?dryRun=All", Body: "{}", Header: json},
		"a deletion of all with a body":            {Method: "DELETE", Path: maps + "?dryRun=All", Body: "{}", Header: json},
		"two values":                               {Method: "DELETE", Path: b + "?dryRun=All&dryRun=None"},
		"another value":                            {Method: "DELETE", Path: b + "?dryRun=all"},
		"an empty value":                           {Method: "DELETE", Path: b + "?dryRun="},
		"behind a semicolon":                       {Method: "DELETE", Path: b + "?x=1;dryRun=All"},
		"another case":                             {Method: "DELETE", Path: b + "?DryRun=All"},
		"on behalf of another":                     {Method: "DELETE", Path: b + "?dryRun=All", Header: as},
		"a creation on behalf of another":          {Method: "POST", Path: maps + "?dryRun=All", Body: "{}", Header: as},
		"a token": {Method: "POST", Path: account + "/token?dryRun=All", Body: "{}",
			Header: json},
		"a connection": {Method: "POST",
			Path: "/api/v1/namespaces/" + s.space + "/pods/web/exec?dryRun=All&command=id"},
		"a review of one's own rights as somebody else's": {Method: "POST", Path: reviews + "selfsubjectaccessreviews",
			Body: "{}", Header: as},
		"a review of another's rights": {Method: "POST", Path: reviews + "subjectaccessreviews", Body: "{}", Header: json},
	} {
		o.Do = "send"
		s.refused(thief.do(o), "a dry run: "+what, http.StatusForbidden)
	}
	s.nothingArrived("a dry run that is none", 0)
	s.stands("b", "a dry run that is none")
}

// tunnels: ways into a workload, and other protocols.
func tunnels(s *stage) {
	thief := s.player(suite.program).signIn()
	pod := "/api/v1/namespaces/" + s.space + "/pods/web/"
	websocket := map[string][]string{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Protocol": {"v5.channel.k8s.io"}}
	spdy := map[string][]string{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"},
		"X-Stream-Protocol-Version": {"v4.channel.k8s.io"}}
	upgrade := func(to ...string) map[string][]string {
		return map[string][]string{"Connection": {"Upgrade"}, "Upgrade": to}
	}
	h2c := upgrade("h2c")
	h2c["Http2-Settings"] = []string{"AAMAAABkAARAAAAAAAIAAAAA"}
	h2c["Connection"] = []string{"Upgrade, HTTP2-Settings"}
	var all []play.Order
	for _, path := range []string{"exec?command=id&stdout=1", "attach?stdout=1", "portforward?ports=80"} {
		all = append(all, play.Order{Method: "GET", Path: pod + path, Header: websocket},
			play.Order{Method: "POST", Path: pod + path, Header: spdy}, play.Order{Method: "POST", Path: pod + path},
			play.Order{Method: "GET", Path: pod + path})
	}
	for _, header := range []map[string][]string{websocket, spdy, h2c, upgrade("anything"), upgrade("TLS/1.0"),
		upgrade("websocket", "h2c"), upgrade("WebSocket, anything"), upgrade(""),
		{"Upgrade": {"websocket"}},
		{"Connection": {"keep-alive, UPGRADE"}, "Upgrade": {"websocket"}}, {"connection": {"upgrade"}, "upgrade": {"h2c"}}} {
		all = append(all, play.Order{Method: "GET", Path: "/version", Header: header},
			play.Order{Method: "GET", Path: "/api/v1/namespaces?watch=1", Header: header})
	}
	for _, path := range []string{pod + "proxy/", "/api/v1/namespaces/" + s.space + "/services/web/proxy/x",
		"/api/v1/nodes/stub/proxy/run"} {
		all = append(all, play.Order{Method: "GET", Path: path}, play.Order{Method: "GET", Path: path, Header: websocket})
	}
	for _, o := range all {
		o.Do = "send"
		a, what := thief.do(o), fmt.Sprintf("%s %s %v", o.Method, o.Path, o.Header)
		s.refused(a, what, http.StatusForbidden)
		to := strings.ToLower(strings.Join(o.Header["Upgrade"], ", "))
		if to != "" && to != "websocket" && to != "spdy/3.1" &&
			!strings.Contains(a.Body, "cannot be understood") {
			s.Wrong("%s: somebody would be asked about it: %s", what, a.Body)
		}
	}
	s.nothingArrived("a tunnel", 0)
}

// changeAsAConnection: after a yes to a port-forward, changes ask for another protocol, which an API server ignores.
func changeAsAConnection(s *stage) {
	thief := s.onTerminal(suite.program).signIn()
	websocket := map[string][]string{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
	forward := play.Order{Do: "send", Method: "GET", Header: websocket,
		Path: "/api/v1/namespaces/" + s.space + "/pods/web/portforward?ports=80"}
	answer := thief.begin(forward)
	if !s.shows(thief.screen, "pods/portforward", question) {
		s.Fatalf("the port-forward is not asked about:\n%s", thief.screen.Screen())
	}
	thief.screen.Type("y\r")
	if a := thief.await(answer, "a port-forward"); a.Code != http.StatusNotFound { // there is no such Pod
		s.Fatalf("the port-forward: %+v", a)
	}
	for _, header := range []map[string][]string{websocket, {"Connection": {"upgrade"}}, {"Upgrade": {"websocket"}}} {
		o := thief.deletes("b")
		o.Header = header
		s.refused(thief.do(o), fmt.Sprintf("a deletion with %v", header), http.StatusForbidden)
	}
	s.refused(thief.do(play.Order{Do: "send", Method: "DELETE",
		Path: strings.Replace(s.configmap("b"), "/v1/", "/v1/watch/", 1)}), "a deletion by the path of a watch", http.StatusForbidden)
	s.stands("b", "a change as a connection")
}
