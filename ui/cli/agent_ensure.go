package cli

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/kubehsm/kubehsm/plugin/agent"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/text"
)

// ensureAgent finds or starts the agent, this program's own if possible. That
// an unlocked one was replaced is said on standard error. If no person reads
// that, an unlocked agent goes on: nobody could be asked for the PIN either.
func (a *app) ensureAgent(ctx context.Context, dirs home.Dirs) (*agent.Client, error) {
	p := agent.Program{Path: a.Executable, Version: a.Version}
	if f, ok := a.Stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.Say = func(s string) {
			_, _ = io.WriteString(f, text.Clean(s)+"\n") // a terminal that has gone has no reader
		}
	}
	return agent.EnsureProgram(ctx, dirs, p)
}
