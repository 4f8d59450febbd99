package cli

import (
	"context"
	"io"

	"github.com/kubehsm/kubehsm/plugin/agent"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/text"
)

// ensureAgent finds or starts the agent, this program's own if possible. That
// an unlocked one was replaced is said on standard error.
func (a *app) ensureAgent(ctx context.Context, dirs home.Dirs) (*agent.Client, error) {
	return agent.EnsureProgram(ctx, dirs, agent.Program{Path: a.Executable, Version: a.Version, Say: func(s string) {
		_, _ = io.WriteString(a.Stderr, text.Clean(s)+"\n") // without standard error there is nobody to tell
	}})
}
