//go:build linux && cgo

package adversary

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// What the card's owner knows; a PIV PIN has at most 8 digits.
const cardPIN = "73916402"

// question is in the words that ask for consent.
const question = "Allow it? [y/N]"

// soon bounds waits for what a healthy program does at once.
const soon = 20 * time.Second

// rig is somebody who works with kubehsm: enrolled, unlocked, and asked about changes.
type rig struct {
	*lab.Lab
	pin  string
	card *vcard.Card // nil with SoftHSM
	// former is the enrollment's record of before, whose policy was less strict.
	former []byte
	// touched says whether a finger touches the card when it wants that.
	touched atomic.Bool
}

// auditLog is the API server's audit log.
func auditLog(c *controlplane.Cluster) string { return filepath.Join(c.Dir(), "audit.log") }

const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
	"omitStages": ["ResponseStarted", "ResponseComplete"], "rules": [{"level": "Metadata"}]}`

// cluster is the control plane of all attacks.
func cluster(t *testing.T) *controlplane.Cluster {
	t.Helper()
	if suite.cluster != nil {
		return suite.cluster
	}
	bin, current, err := controlplane.Built(t.Context(), false)
	if err == nil && !current {
		need.Missing(t, "the control plane is not built: run `make cluster`")
	}
	dir := filepath.Join(suite.dir, "cluster")
	policy := filepath.Join(suite.dir, "audit-policy.yaml")
	if err = errors.Join(err, os.WriteFile(policy, []byte(auditPolicy), 0o600)); err != nil {
		t.Fatal(err)
	}
	// Not the test's context: the cluster outlives the test that asked first.
	c, err := controlplane.Start(context.WithoutCancel(t.Context()), dir, controlplane.Options{Bin: bin,
		APIServerFlags: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + filepath.Join(dir, "audit.log")}})
	if err == nil {
		suite.cluster = c
		err = lab.Rights(t.Context(), c)
	}
	must.OK(t, err)
	return c
}

// newRig enrolls with a token in SoftHSM or, with readers, a card whose key wants a
// touch for each use.
func newRig(t *testing.T, binary string, readers *vcard.Lab) *rig {
	t.Helper()
	need.Program(t, "softhsm2-util")
	dir, err := os.MkdirTemp("", "adversary-") // a test's name would make sockets' paths too long
	must.OK(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	r := &rig{pin: lab.PIN}
	o := lab.Options{Binary: binary, Cluster: cluster(t)}
	if readers != nil {
		o.Tokens = []hsmtest.SoftToken{}
	}
	if r.Lab, err = lab.New(dir, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Log(err) // an attack may have left what does not end
		}
	})
	enroll := []string{"enroll", "--user", lab.User, "--group", lab.DevelopersGroup, "--approve-with",
		r.Cluster.AdminKubeconfig(), "--yes"}
	if readers != nil {
		r.pin = cardPIN
		r.touched.Store(true)
		touch := func(byte, <-chan struct{}) bool { return r.touched.Load() }
		r.card = vcard.New(vcard.Config{Serial: 12345678, Touch: touch})
		r.card.SetPIN(cardPIN)
		readers.Insert(t, 0, r.card)
		enroll = append(enroll, "--token", "piv:serial=12345678;slot=9a", "--touch-policy", "always", "--accept-risk",
			"default-secrets")
	}
	steps := [][]string{enroll, {"consent", "set", lab.Enrolled, "--rule", "verbs=delete resources=nodes", "--yes"},
		{"consent", "set", lab.Enrolled, "--policy", "writes", "--yes"}}
	for i, args := range steps {
		if _, err := lab.Succeeded(r.KubehsmPIN(t.Context(), r.pin, args...)); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if r.former, err = os.ReadFile(filepath.Join(r.Home, "state", "enrollments", lab.Enrolled+".json")); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

// stage is where one attack takes place.
type stage struct {
	*trial
	*rig
	// mark is the user agent of the adversary's requests, space a namespace with the
	// configmaps a, b and c.
	mark, space string
	began       int64 // the length of the API server's audit log
}

func (r *rig) stage(v *trial, name string) *stage {
	s := &stage{trial: v, rig: r, mark: "adversary/" + name + "-" + unique(), space: name + "-" + unique()}
	manifest := fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", s.space)
	for _, each := range []string{"a", "b", "c"} {
		manifest += fmt.Sprintf("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}}\n", each,
			s.space)
	}
	s.Must(r.Cluster.Apply(v.ctx, manifest))
	s.unlock()
	info, err := os.Stat(auditLog(r.Cluster))
	s.Must(err)
	s.began = info.Size()
	return s
}

var count atomic.Int64

func unique() string { return fmt.Sprintf("%x-%d", time.Now().UnixNano()&0xffffff, count.Add(1)) }

// unlock makes sure that the agent runs and has the PIN.
func (s *stage) unlock() {
	s.Helper()
	_, err := lab.Succeeded(s.KubehsmPIN(s.ctx, s.pin, "unlock", lab.Enrolled))
	s.Must(err)
}

// configmap is the path of one of the space's.
func (s *stage) configmap(name string) string {
	return "/api/v1/namespaces/" + s.space + "/configmaps/" + name
}

// arrival is a request that has reached the API server.
type arrival struct {
	Verb, RequestURI, UserAgent string
	ImpersonatedUser            *struct{ Username string }
}

// arrivals are those of the adversary.
func (s *stage) arrivals() (all []arrival) {
	b, err := os.ReadFile(auditLog(s.Cluster))
	s.Must(err)
	for line := range bytes.Lines(b[s.began:]) {
		var a arrival
		s.Must(json.Unmarshal(line, &a))
		if a.UserAgent == s.mark {
			all = append(all, a)
		}
	}
	return all
}

// nothingArrived holds that no request of the adversary's has reached the API server,
// but for how many that it was to serve.
func (s *stage) nothingArrived(what string, but int) {
	if all := s.arrivals(); len(all) != but {
		s.Wrong("%s: %d requests have reached the API server, not %d: %+v", what, len(all), but, all)
	}
}

// stands holds that the configmap is there, by the cluster itself.
func (s *stage) stands(name, what string) {
	if _, err := s.Cluster.Admin(s.ctx, "", "-n", s.space, "get", "configmap", name); err != nil {
		s.Wrong("%s: the configmap %s: %v", what, name, err)
	}
}

// honest holds that a kubectl beside the adversary works.
func (s *stage) honest() {
	res, err := s.Kubectl(s.ctx, "-n", s.space, "get", "configmap", "c", "-o", "name")
	s.Must(err)
	if res.Code != 0 {
		s.Wrong("kubectl beside it: %s", res)
	}
}

// status is the agent's.
func (s *stage) status() message.Status {
	st, err := s.Status(s.ctx)
	s.Must(err)
	return st
}

// terminal runs a program on a terminal.
func (s *stage) terminal(program string, args ...string) *term.Session {
	return term.Run(s.trial, term.Options{Path: program, Args: args, Dir: s.Dir, Env: s.Env(), Columns: 160, Rows: 60,
		Secrets: []string{s.pin}})
}

// shows tells whether the terminal comes to show all texts.
func (s *stage) shows(t *term.Session, texts ...string) bool {
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	return t.Wait(ctx, func(f term.Frame) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !f.Contains(text) })
	}) == nil
}

// recorded holds that there is such a record in kubehsm's audit log: "EVENT OUTCOME REASON ERROR".
func (s *stage) recorded(want string) {
	seen := false
	poll.Within(soon, func() bool {
		out, err := lab.Succeeded(s.Kubehsm(s.ctx, "audit", "-o", "json"))
		s.Must(err)
		var log struct {
			Records []struct {
				Event, Outcome, Reason, Error string
			}
		}
		s.Must(json.Unmarshal([]byte(out), &log))
		for _, r := range log.Records {
			line := strings.Join(strings.Fields(r.Event+" "+r.Outcome+" "+r.Reason+" "+r.Error), " ")
			seen = seen || line == want
		}
		return seen
	})
	if !seen {
		s.Wrong("kubehsm's audit log has no record of %q", want)
	}
}
