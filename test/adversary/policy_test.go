//go:build linux && cgo

package adversary

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/test/adversary/play"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// policyAttacks lower the policy.
var policyAttacks = []attack{
	{name: "lowers-by-command", run: lowersByCommand},
	{name: "lowers-in-the-file", run: lowersInTheFile},
	{name: "another-enrollment", run: anotherEnrollment},
}

func (s *stage) enrollmentFile(name string) string {
	return filepath.Join(s.Home, "state", "enrollments", name+".json")
}

// enrollment is the record as it stands in its file.
func (s *stage) enrollment() map[string]any {
	b, err := os.ReadFile(s.enrollmentFile(lab.Enrolled))
	s.Must(err)
	var e map[string]any
	s.Must(json.Unmarshal(b, &e))
	return e
}

// writes puts a record in the place of another one, until restore is called.
func (s *stage) writes(path string, record map[string]any) (restore func()) {
	before, err := os.ReadFile(path)
	b, jerr := json.Marshal(record)
	s.Must(jerr)
	s.Must(os.WriteFile(path, b, 0o600))
	return func() {
		if err != nil { // No file was there before.
			s.Must(os.Remove(path))
		} else {
			s.Must(os.WriteFile(path, before, 0o600))
		}
		_, err := lab.Succeeded(s.Kubehsm(s.ctx, "agent", "stop")) // the next one reads what is there now
		s.Must(err)
		s.unlock()
	}
}

// lowersByCommand: kubehsm's own command, without the PIN, while the agent holds the token unlocked.
func lowersByCommand(s *stage) {
	for _, lower := range [][]string{{"--policy", "session"}, {"--rule", "verbs=get resources=nodes"}} {
		res, err := s.Kubehsm(s.ctx, append([]string{"consent", "set", lab.Enrolled, "--yes"}, lower...)...)
		s.Must(err)
		if res.Code == 0 {
			s.Wrong("%v: %s", lower, res)
		}
	}
	thief := s.player(suite.program).signIn()
	s.refused(thief.do(thief.deletes("b")), "a policy lowered by command", http.StatusForbidden)
	s.nothingArrived("a policy lowered by command", 0)
}

// changed returns e with one member changed, and those of its cluster.
func changed(e map[string]any, member string, value any) map[string]any {
	c := maps.Clone(e)
	if name, of := strings.CutPrefix(member, "cluster."); of {
		cluster := maps.Clone(e["cluster"].(map[string]any))
		cluster[name] = value
		c["cluster"] = cluster
		return c
	}
	c[member] = value
	return c
}

// lowersInTheFile: the record is edited, and put back as it was under a less strict policy, while the
// agent runs and, but for the latter, before another one starts.
func lowersInTheFile(s *stage) {
	e := s.enrollment()
	signed := e["signed"].(map[string]any)
	var former map[string]any
	s.Must(json.Unmarshal(s.former, &former))
	if former["policy"] == e["policy"] || signed["text"] == "" {
		s.Fatalf("the record is %v, was %v", e, former)
	}
	lowered := map[string]any{"text": strings.Replace(signed["text"].(string), `"policy":"writes"`, `"policy":"session"`, 1),
		"signature": signed["signature"]}
	for what, record := range map[string]map[string]any{
		"a lowered policy":      changed(e, "policy", "session"),
		"without a signature":   changed(changed(e, "policy", "session"), "signed", map[string]any{}),
		"a lowered text":        changed(changed(e, "policy", "session"), "signed", lowered),
		"another server":        changed(e, "cluster.server", "https://localhost:1"),
		"another TLS name":      changed(e, "cluster.tlsServerName", "localhost"),
		"another library":       changed(e, "key", e["key"].(string)+"?module-path=/usr/lib/opensc-pkcs11.so"),
		"the version of before": former,
	} {
		func() {
			s.player(suite.program).signIn() // the agent has seen the record as it is
			defer s.writes(s.enrollmentFile(lab.Enrolled), record)()
			for _, restarted := range []bool{false, true} {
				if restarted {
					if what == "the version of before" { // a limit: nothing remembers that it is an earlier one
						return
					}
					_, err := lab.Succeeded(s.Kubehsm(s.ctx, "agent", "stop"))
					s.Must(err)
					_, err = s.KubehsmPIN(s.ctx, s.pin, "unlock", lab.Enrolled) // the person goes on, if that works
					s.Must(err)
				}
				thief := s.player(suite.program)
				if a := thief.do(play.Order{Do: "plugin"}); a.Error == "" {
					s.Wrong("%s: a session is made for a record that its key has not signed as it is", what)
					s.refused(thief.do(thief.deletes("b")), what, http.StatusForbidden, http.StatusUnauthorized)
				}
			}
		}()
	}
	s.nothingArrived("a record that was changed", 0)
	s.stands("b", "a record that was changed")
}

// anotherEnrollment: the same key, under another name that the person has enrolled with no policy; also after the
// enrollment whose policy asks was removed while the agent runs.
func anotherEnrollment(s *stage) {
	e := s.enrollment()
	e["name"] = "other"
	delete(e, "policy")
	certificates := filepath.Join(s.Home, "state", "certificates", e["keyHash"].(string))
	b, err := os.ReadFile(filepath.Join(certificates, lab.Enrolled+".pem")) // a certificate is public
	s.Must(err)
	copied := filepath.Join(certificates, "other.pem")
	s.Must(os.WriteFile(copied, b, 0o600))
	defer os.Remove(copied)
	defer s.writes(s.enrollmentFile("other"), e)()
	_, err = lab.Succeeded(s.KubehsmPIN(s.ctx, s.pin, "consent", "set", "other", "--policy", "session", "--yes"))
	s.Must(err)
	thief := s.player(suite.program)
	file := s.enrollmentFile(lab.Enrolled)
	defer func() { s.Must(os.Rename(file+".away", file)) }()
	for _, what := range []string{"another enrollment of the key", "the same, without the one whose policy asks"} {
		thief.did(play.Order{Do: "plugin", Enrollment: "other"})
		o := thief.deletes("b")
		o.Enrollment = "other"
		s.refused(thief.do(o), what, http.StatusForbidden)
		if _, err := os.Stat(file); err == nil {
			s.Must(os.Rename(file, file+".away"))
		}
	}
	s.nothingArrived("another enrollment of the key", 0)
	s.stands("b", "another enrollment of the key")
}
