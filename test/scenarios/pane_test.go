//go:build linux

package scenarios

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

// pane is a terminal that is not ours: tmux's.
type pane struct {
	*user
	program string
}

// pane has the user's tmux run a command line, until the test ends.
func (u *user) pane(columns, rows int, command string) *pane {
	u.t.Helper()
	p := &pane{u, need.Program(u.t, "tmux")}
	p.tmux("", "new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows), command)
	u.t.Cleanup(func() { // the test's own context has ended by then
		u.ok(p.run(context.Background(), "", "kill-server"))
	})
	return p
}

// tmux runs one of tmux's commands, which must succeed.
func (p *pane) tmux(stdin string, args ...string) string {
	p.t.Helper()
	return p.ok(p.run(p.t.Context(), stdin, args...))
}

func (p *pane) run(ctx context.Context, stdin string, args ...string) (lab.Result, error) {
	return p.Run(ctx, lab.Run{Stdin: stdin}, p.program,
		append([]string{"-S", filepath.Join(p.Dir, "tmux"), "-f", "/dev/null"}, args...)...)
}

// shows waits until all texts are on the screen, and returns the screen.
func (p *pane) shows(texts ...string) string {
	p.t.Helper()
	screen := ""
	if !poll.Within(poll.Patience, func() bool {
		screen = p.tmux("", "capture-pane", "-p")
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	}) {
		p.t.Fatalf("waited in vain for %q:\n%s", texts, screen)
	}
	return screen
}
