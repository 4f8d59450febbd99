//go:build linux && cgo

package adversary

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/consent"
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

// lowersByCommand: kubehsm's own command, without the PIN, and with one that nobody types
// for it.
func lowersByCommand(s *stage) {
	for _, lower := range [][]string{{"--policy", "session"}, {"--rule", "verbs=get resources=nodes"}} {
		args := append([]string{"consent", "set", lab.Enrolled, "--yes"}, lower...)
		res, err := s.Kubehsm(s.ctx, args...)
		s.Must(err)
		again, err := s.KubehsmPIN(s.ctx, s.pin, args...)
		s.Must(err)
		if res.Code == 0 || again.Code == 0 {
			s.Wrong("%v: %s\n%s", lower, res, again)
		}
	}
	thief := s.player(suite.program).signIn()
	s.refused(thief.do(thief.deletes("b")), "a policy lowered by command", http.StatusForbidden)
	s.nothingArrived("a policy lowered by command", 0)
}

// policyFile is the record that the key has signed.
func (s *stage) policyFile() string {
	return filepath.Join(s.Home, "state", "policies", s.enrollment()["keyHash"].(string)+".json")
}

// nextVersion is a record of the version that would follow the one in signed, and ask for
// nothing, with that one's signature.
func (s *stage) nextVersion(signed []byte) string {
	var r map[string]any
	s.Must(json.Unmarshal(signed, &r))
	signature, err := base64.StdEncoding.DecodeString(r["signature"].(string))
	s.Must(err)
	now := consent.Signed{Text: r["text"].(string), Signature: signature}
	v, err := now.Open(s.enrollment()["keyHash"].(string))
	s.Must(err)
	v.Number, v.Before, v.Policy = v.Number+1, consent.Digest(now.Text), string(consent.Session)
	r["text"], err = v.Text()
	s.Must(err)
	b, err := json.Marshal(r)
	s.Must(err)
	return string(b)
}

// lowersInTheFile: the records are edited, removed, and put back as they were under a less
// strict policy; the agent is another one each time.
func lowersInTheFile(s *stage) {
	e := s.enrollment()
	delete(e, "policy")
	signed, err := os.ReadFile(s.policyFile())
	s.Must(err)
	if string(signed) == string(s.former) || !strings.Contains(string(signed), "writes") {
		s.Fatalf("the signed policy is %s", signed)
	}
	for what, policy := range map[string]string{
		"edited": strings.Replace(string(signed), "writes", "session", 1), "removed": "", "of before": string(s.former),
		"nonsense": "{}", "that follows": s.nextVersion(signed),
	} {
		func() {
			defer s.writes(s.enrollmentFile(lab.Enrolled), e)()
			s.Must(os.Remove(s.policyFile()))
			if policy != "" {
				s.Must(os.WriteFile(s.policyFile(), []byte(policy), 0o600))
			}
			defer func() { s.Must(os.WriteFile(s.policyFile(), signed, 0o600)) }()
			_, err := lab.Succeeded(s.Kubehsm(s.ctx, "agent", "stop"))
			s.Must(err)
			s.unlock()
			thief := s.player(suite.program).signIn()
			s.refused(thief.do(thief.deletes("b")), "a policy's record, "+what, http.StatusForbidden, http.StatusUnauthorized)
		}()
	}
	s.recorded("policy record record-missing")
	s.recorded("policy record record-altered")
	s.recorded("policy record record-older")
	s.nothingArrived("a policy lowered in its file", 0)
	s.stands("b", "a policy lowered in its file")
}

// anotherEnrollment: the same key, under another name and with no policy.
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
	thief := s.player(suite.program)
	thief.did(play.Order{Do: "plugin", Enrollment: "other"})
	o := thief.deletes("b")
	o.Enrollment = "other"
	s.refused(thief.do(o), "another enrollment of the key", http.StatusForbidden)
	s.nothingArrived("another enrollment of the key", 0)
	s.stands("b", "another enrollment of the key")
}
