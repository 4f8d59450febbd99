package cli

import (
	"context"

	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/credential"
)

func (a *app) ensureAgent(ctx context.Context, dirs home.Dirs) (*client.Client, error) {
	return credential.EnsureAgent(ctx, dirs, a.Executable, a.Version, a.Stderr)
}
