//go:build linux && cgo

package card

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestTicketForACard takes a new card to a kubectl that works with a ticket that
// is for this card, attested, with a touch for every use: the help desk needs
// nobody to read words.
func TestTicketForACard(t *testing.T) {
	p := newPerson(t)
	must.OK(t, errors.Join(p.Cluster.PublishInfo(t.Context(), p.Cluster.Server()),
		p.ApplyRoles(t.Context(), "ticket")))
	home := t.TempDir()
	must.OK(t, os.Chmod(home, 0o700))
	root := filepath.Join(p.Dir, "root.pem")
	maker := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vcard.DefaultCA().Certificate.Raw})
	must.OK(t, os.WriteFile(root, maker, 0o600))
	desk := func(args ...string) lab.Result {
		t.Helper()
		res, err := p.Run(t.Context(), lab.Run{
			Env: []string{"KUBEHSM_HOME=" + home, "KUBECONFIG=" + p.Cluster.AdminKubeconfig()}}, p.Binary, args...)
		must.OK(t, err)
		return res
	}
	ticket := func(serial string) string {
		t.Helper()
		var made struct{ Tickets []struct{ Ticket string } }
		out := p.ok(desk("helpdesk", "ticket", "--for", "jill", "--group", lab.DevelopersGroup, "--name", "prod-card",
			"--serial", serial,
			"--policy", "attested,touch-always", "-o", "json"), nil)
		must.OK(t, json.Unmarshal([]byte(out), &made))
		return made.Tickets[0].Ticket
	}
	res, err := p.Run(t.Context(), lab.Run{Stdin: ticket("999")}, p.Binary, "join", "--ticket", "-", "--yes")
	if err != nil || res.Code != 3 || !strings.Contains(res.Stderr, `the serial number "999"`) {
		t.Errorf("a ticket for another card: %v %s", err, res)
	}

	file := filepath.Join(p.Dir, "ticket")
	must.OK(t, os.WriteFile(file, []byte(ticket("12345678")), 0o600))
	p.secrets("token pin change --pin-fd 3 --new-pin-fd 4", vcard.DefaultPIN, ownPIN)
	p.secrets("token puk change --puk-fd 3 --new-puk-fd 4", vcard.DefaultPUK, "73519264")
	p.secrets("token management-key set --protect --pin-fd 3", ownPIN)
	s := p.terminal(p.Binary, "join", "--ticket", file, "--yes")
	s.WaitFor("touch always")
	s.Answer(pinPrompt, ownPIN)
	p.touches(s, "sign the certificate request")
	p.touches(s, "sign the record of the enrollment")
	s.WaitFor("waiting for somebody to approve")
	name := p.pendingFor("jill")
	if res := desk("helpdesk", "approve", name, "--yes"); res.Code != 1 ||
		!strings.Contains(res.Stderr, "nothing proves that it is") {
		t.Errorf("an attestation of an unknown maker: %s", res)
	}
	approved := p.ok(desk("helpdesk", "approve", name, "--yes", "--root", root), nil) // no words
	if !strings.Contains(approved, "The ticket is ended") {
		t.Errorf("approve: %s", approved)
	}
	p.touch(s) // the agent signs in
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	if out := p.kubectl("--context", "prod-card", "auth", "whoami", "-o",
		"jsonpath={.status.userInfo.username}"); out != "jill" {
		t.Errorf("kubectl is %q", out)
	}
}

// pendingFor waits for the request for user.
func (p *person) pendingFor(user string) string {
	p.t.Helper()
	name := ""
	poll.Until(p.t, "there is a request for "+user, func() bool {
		var list struct {
			Requests []struct{ Name, User, State string }
		}
		p.json(&list, "csr", "list", "--pending", "--context", lab.Context)
		for _, r := range list.Requests {
			if r.User == user {
				name = r.Name
			}
		}
		return name != ""
	})
	return name
}
