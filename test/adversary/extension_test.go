//go:build linux && cgo

package adversary

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/kubehsm/kubehsm/test/adversary/play"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// extension is an API server behind the aggregation layer that does all that it is told,
// knows no dry runs, and opens a way for everybody who wants another protocol.
type extension struct {
	mu   sync.Mutex
	told []string // "METHOD TARGET BODY" of the users' requests
}

const (
	extensionGroup = "extension.example.org"
	doors          = "/apis/" + extensionGroup + "/v1/doors"
)

func (e *extension) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if user := r.Header.Get("X-Remote-User"); user == lab.User {
		e.mu.Lock()
		e.told = append(e.told, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		e.mu.Unlock()
	}
	if to := r.Header.Get("Upgrade"); to != "" {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", to)
		w.WriteHeader(http.StatusSwitchingProtocols)
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(c, "the door is open") // the client may have gone
			_ = c.Close()
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := `{"kind":"Status","apiVersion":"v1","status":"Success"}`
	if strings.Count(r.URL.Path, "/") == 3 { // the group's own path
		answer = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"` + extensionGroup + `/v1","resources":[` +
			`{"name":"doors","singularName":"door","namespaced":false,"kind":"Door","verbs":["get","list","create","delete"]}]}`
	}
	_, _ = io.WriteString(w, answer) // the client may have gone
}

func (e *extension) heard() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.told)
}

// extended registers an extension with the API server.
func (s *stage) extended() *extension {
	e := &extension{}
	server := httptest.NewTLSServer(e)
	s.Cleanup(func() {
		// The trial's own context has ended by now.
		if _, err := s.Cluster.Admin(context.Background(), "", "delete", "apiservice", "v1."+extensionGroup); err != nil {
			s.Error(err)
		}
		if err := server.Config.Close(); err != nil { // the test server's Close waits for who holds a connection
			s.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	s.Must(err)
	s.Must(s.Cluster.Apply(s.ctx, fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {name: extension, namespace: %[1]s},
  spec: {type: ExternalName, externalName: localhost, ports: [{port: %[2]s}]}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.%[3]s}
spec: {group: %[3]s, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
  service: {name: extension, namespace: %[1]s, port: %[2]s}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adversary-extension}
rules: [{apiGroups: [%[3]s], resources: ["*"], verbs: ["*"]}, {nonResourceURLs: ["/apis/*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: adversary-extension}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: adversary-extension}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[4]s}]
`, s.space, port, extensionGroup, lab.User)))
	_, err = s.Cluster.Admin(s.ctx, "", "wait", "--for=condition=Available", "apiservice/v1."+extensionGroup,
		"--timeout=60s")
	s.Must(err)
	return e
}

// extensionRequests are a method, a path, and a protocol to change to. DOORS stands for
// the resource, and GROUP for what is above it.
var extensionRequests = []string{
	"POST DOORS", "PUT DOORS/front", "PATCH DOORS/front", "DELETE DOORS", "DELETE DOORS/front", "OPTIONS DOORS/front",
	"PUT GROUP/namespaces/default/doors/front", "POST DOORS/front/open", "PUT DOORS/front/scale",
	"POST GROUP", "POST /apis/" + extensionGroup, "DELETE GROUP",
	// what would be harmless with Kubernetes' own resources
	"POST DOORS?dryRun=All", "PUT DOORS/front?dryRun=All", "PATCH DOORS/front?dryRun=All",
	"DELETE DOORS/front?dryRun=All", "DELETE DOORS?dryRun=All", "PUT DOORS/front/status?dryRun=All",
	"POST DOORS/front/eviction?dryRun=All",
	"POST GROUP/selfsubjectaccessreviews", "POST GROUP/selfsubjectreviews",
	// ways into what is behind it
	"GET DOORS/front/proxy", "GET DOORS/front/exec", "GET DOORS/front/open websocket", "GET DOORS/front SPDY/3.1",
	"POST DOORS/front/open SPDY/3.1", "GET DOORS?watch=1 websocket", "GET GROUP websocket",
}

// doorBody is what is sent to the extension.
const doorBody = `{"apiVersion":"` + extensionGroup + `/v1","kind":"Door","metadata":{"name":"front"}}`

// order is a request of that kind.
func (s *stage) order(line string) play.Order {
	f := strings.Fields(strings.NewReplacer("DOORS", doors, "GROUP", strings.TrimSuffix(doors, "/doors")).Replace(line))
	o := play.Order{Do: "send", Method: f[0], Path: f[1], Header: map[string][]string{}}
	if strings.HasPrefix(o.Method, "P") {
		o.Body, o.Header["Content-Type"] = doorBody, []string{"application/json"}
	}
	if len(f) > 2 {
		o.Header["Connection"], o.Header["Upgrade"] = []string{"Upgrade"}, f[2:]
	}
	return o
}

// aggregatedAPI: an API server behind the API server does as it is told, and need not
// keep the rules of Kubernetes' own.
func aggregatedAPI(s *stage) {
	e := s.extended()
	thief := s.player(suite.program).signIn()
	asked := play.Order{Do: "send", Method: "GET", Path: doors}
	if poll.Within(soon, func() bool { return thief.did(asked).Code == http.StatusOK }); len(e.heard()) == 0 {
		s.Fatalf("a plain look has not reached the extension: %+v", thief.did(asked))
	}
	looks, arrived := len(e.heard()), len(s.arrivals())
	for _, line := range extensionRequests {
		s.refused(thief.do(s.order(line)), line, http.StatusForbidden)
	}
	if all := e.heard(); len(all) != looks {
		s.Wrong("an extension was told: %q", all[looks:])
	}
	s.nothingArrived("an aggregated API", arrived)

	sum := sha256.Sum256([]byte(doorBody))
	for line, shown := range map[string][]string{
		"POST DOORS":                     {"create doors." + extensionGroup, hex.EncodeToString(sum[:8])},
		"DELETE DOORS/front?dryRun=All":  {"delete doors." + extensionGroup, `"front"`},
		"GET DOORS/front/open websocket": {"doors." + extensionGroup + "/open (over websocket)", `"front"`},
	} {
		s.extends(e, line, shown...)
	}
}

// extends holds that a request to the extension is asked about in these words, and told
// to it once there is a yes.
func (s *stage) extends(e *extension, line string, shown ...string) {
	p := s.onTerminal(suite.program).signIn()
	defer p.end()
	o := s.order(line)
	o.Header["User-Agent"] = []string{"honest"}
	answer := p.begin(o)
	if !s.shows(p.screen, append(shown, question)...) {
		s.Wrong("the question about %s does not say %q:\n%s", line, shown, p.screen.Screen())
	}
	p.screen.Type("y\r")
	if a := p.await(answer, line); a.Code != http.StatusOK && a.Code != http.StatusSwitchingProtocols {
		s.Wrong("%s: %+v", line, a)
	}
	if want := strings.TrimSpace(o.Method + " " + o.Path + " " + o.Body); !slices.Contains(e.heard(), want) {
		s.Wrong("%s, with a yes: the extension was told %q, not %q", line, e.heard(), want)
	}
}
