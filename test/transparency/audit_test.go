//go:build linux

package transparency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/must"
)

// chance is what kubectl takes at random or in any order, and what holds a time
// of the server's.
var chance = regexp.MustCompile(`\b(timeoutSeconds=|continue=|fieldSelector=involvedObject)[^&]*`)

// audit is the API server's audit log: what it saw of each request.
type audit struct{ policy, log string }

// mark is a moment: how long the log was then.
type mark struct {
	size int64
	at   time.Time
}

func (a *audit) flags() []string {
	return []string{"--audit-policy-file=" + a.policy, "--audit-log-path=" + a.log}
}

func (a *audit) writePolicy() error {
	return os.WriteFile(a.policy,
		[]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules: [{level: Metadata}]\n"), 0o600)
}

// now is this moment.
func (a *audit) now() mark {
	m := mark{at: time.Now()}
	if info, err := os.Stat(a.log); err == nil { // no log at first
		m.size = info.Size()
	}
	return m
}

// requests are those that came with w's certificate and were logged since from,
// in no order: kubectl sends some at once.
func (a *audit) requests(t testing.TB, w way, from mark) []string {
	t.Helper()
	b, err := os.ReadFile(a.log)
	must.OK(t, err)
	var all []string
	for line := range bytes.Lines(b[from.size:]) {
		var e struct {
			Verb, RequestURI, UserAgent string
			User                        struct {
				Username string
				Groups   []string
				Extra    map[string][]string
			}
			ImpersonatedUser *struct {
				Username string
				Groups   []string
			}
			ResponseStatus           struct{ Code int }
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(line, &e); err != nil {
			continue // the last line is being written
		}
		if !slices.Contains(e.User.Extra["authentication.kubernetes.io/credential-id"], w.credential) {
			continue
		}
		if e.RequestReceivedTimestamp.Before(from.at) { // a stream of an earlier command, which has ended just now
			continue
		}
		if e.UserAgent == "kubehsm" { // the agent's own look whether the server answers
			continue
		}
		code := e.ResponseStatus.Code
		if code == http.StatusNotModified { // whether something changed since kubectl last asked is chance
			code = http.StatusOK
		}
		uri := strings.ReplaceAll(chance.ReplaceAllString(e.RequestURI, "$1…"), w.namespace, "NAMESPACE")
		request := fmt.Sprintf("%s %s %d as %s %s by %s", e.Verb, uri, code, e.User.Username, e.User.Groups, e.UserAgent)
		if i := e.ImpersonatedUser; i != nil {
			request += fmt.Sprintf(" for %s %s", i.Username, i.Groups)
		}
		all = append(all, request)
	}
	slices.Sort(all)
	return all
}
