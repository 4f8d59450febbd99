package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui"
)

// TestTicketFile: no ticket is made that could not be written, and nothing is
// left of one that could not be made.
func TestTicketFile(t *testing.T) {
	b := newBench(t)
	b.cluster() // knows no secrets: to get there fails otherwise
	there := filepath.Join(b.home, "there-spare.png")
	must.OK(t, os.WriteFile(there, []byte("keep"), 0o600))
	ticket := []string{"helpdesk", "ticket", "--for", "jane", "--spare", "-o", "file", "--file"}
	b.fails(ui.ExitUsage, "exists already", append(ticket, filepath.Join(b.home, "there.png"))...)
	b.fails(1, "no such file", append(ticket, filepath.Join(b.home, "no", "there.png"))...)
	b.fails(1, "create bootstrap token", append(ticket, filepath.Join(b.home, "new.png"))...)
	b.fails(ui.ExitUsage, "cannot name token 7 too", append(ticket, filepath.Join(b.home, "one.png"), "--serial", "7")...)
	left, err := filepath.Glob(filepath.Join(b.home, "*.png"))
	if err != nil || len(left) != 1 || b.read(there) != "keep" {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestOnePersonAtATime: of two names none is taken.
func TestOnePersonAtATime(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.fails(ui.ExitUsage, "only once", "helpdesk", "ticket", "--for", "jane", "--for", "joe")
	b.fails(ui.ExitUsage, "only once", "helpdesk", "revoke", "--user", "jane", "--user", "joe")
	b.fails(ui.ExitUsage, "only once", "csr", "forecast", "--user", "jane", "--user", "joe")
}
