//go:build linux && cgo

package e2e

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

const (
	wrongPIN      = "5550001112"
	pinPrompt     = "needs its PIN"
	consentPrompt = "Allow it? [y/N]"
)

// whoami has kubectl say who the API server takes it for.
var whoami = []string{"auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"}

// jane is what [whoami] says of an enrolled developer.
const jane = `jane ["developers","system:authenticated"]`

// person is somebody with a token in software and a lab.
type person struct{ *lab.Person }

func newPerson(t *testing.T) *person {
	t.Helper()
	return &person{lab.ForTest(t, lab.Options{})}
}

// unique is a name that no other test, nor the same one again, has in the shared cluster.
func unique(name string) string { return name + "-" + strings.ToLower(rand.Text()[:8]) }

// kubectl runs kubectl without a terminal, which must succeed.
func (p *person) kubectl(args ...string) string {
	p.T.Helper()
	out, err := lab.Succeeded(p.Kubectl(p.T.Context(), args...))
	p.Must(err)
	return out
}

// sh runs a shell script on a terminal.
func (p *person) sh(script string) *term.Session {
	p.T.Helper()
	return p.Terminal(nil, "/bin/sh", "-c", script)
}

// asAdmin runs kubehsm as somebody else does, who is the cluster's admin.
func (p *person) asAdmin(args ...string) string {
	p.T.Helper()
	out, err := lab.Succeeded(p.Run(p.T.Context(), lab.Run{Env: []string{"KUBECONFIG=" + p.Cluster.AdminKubeconfig()}},
		p.Binary, args...))
	p.Must(err)
	return out
}

// awaiting begins an enrollment on a terminal, up to the wait for approval, and
// returns the request's name.
func (p *person) awaiting(pins ...string) (s *term.Session, request string) {
	p.T.Helper()
	s = p.Terminal(nil, p.Binary, "enroll", "--user", lab.User, "--group", lab.DevelopersGroup)
	s.WaitFor("Begin? [Y/n")
	s.Type("y\r")
	prompt := pinPrompt
	for _, pin := range pins {
		s.Answer(prompt, pin)
		prompt = "Wrong PIN"
	}
	s.WaitFor("waiting for somebody to approve")
	return s, p.pending()
}

// pending returns the name of the one request for the key on the token.
func (p *person) pending() string {
	p.T.Helper()
	var keys struct {
		Keys []struct{ Fingerprint string }
	}
	var list struct {
		Requests []struct{ Name, Fingerprint string }
	}
	p.json(&keys, "key", "list")
	p.json(&list, "csr", "list", "--pending", "--context", lab.Context)
	for _, r := range list.Requests {
		if len(keys.Keys) == 1 && r.Fingerprint == keys.Keys[0].Fingerprint {
			return r.Name
		}
	}
	p.T.Fatalf("no request for one of %+v in %+v", keys, list)
	return ""
}

// json runs kubehsm with -o json and reads what it prints.
func (p *person) json(into any, args ...string) {
	p.T.Helper()
	p.Must(json.Unmarshal([]byte(p.Do(append(args, "-o", "json")...)), into))
}

// approve is the admin's, who has heard the words from the person.
func (p *person) approve(request string) {
	p.T.Helper()
	var r struct{ Words []string }
	p.Must(json.Unmarshal([]byte(p.asAdmin("csr", "show", request, "-o", "json")), &r))
	p.asAdmin("csr", "approve", request, "--yes", "--words", strings.Join(r.Words, " "))
}

// enroll does it unattended.
func (p *person) enroll() {
	p.T.Helper()
	p.Must(p.Enroll(p.T.Context()))
}

// unplug takes the tokens away and returns what brings them back.
func (p *person) unplug() (plug func()) {
	p.T.Helper()
	away := p.Soft.Tokens + ".away"
	p.Must(os.Rename(p.Soft.Tokens, away))
	p.Must(os.Mkdir(p.Soft.Tokens, 0o700))
	return func() {
		p.T.Helper()
		p.Must(os.RemoveAll(p.Soft.Tokens))
		p.Must(os.Rename(away, p.Soft.Tokens))
	}
}

// holdsNowhere checks that no file of the person's has the secret in it.
func (p *person) holdsNowhere(secret string) {
	p.T.Helper()
	p.Must(filepath.WalkDir(p.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, filepath.Join(p.Dir, "bin")) {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), secret) {
			p.T.Errorf("%s holds the secret", path)
		}
		return err
	}))
}

// wantUser has kubectl say that it is jane.
func (p *person) wantUser() {
	p.T.Helper()
	if out := p.kubectl(whoami...); out != jane {
		p.T.Errorf("kubectl is %s, want %s", out, jane)
	}
}
