package flow

import (
	"context"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Env is what every use case works with. Main fills it once.
type Env struct {
	Dirs    home.Dirs
	Drivers hsm.Drivers
	// Executable is the absolute path of this program: kubeconfig entries name
	// it and the agent is started from it.
	Executable string
	// Kubeconfig is the file named by --kubeconfig; "" means kubectl's rules
	// ($KUBECONFIG, else ~/.kube/config).
	Kubeconfig string
	// Cluster is the kubeconfig cluster named by --cluster, which takes the place
	// of the one that a context names; "" leaves that.
	Cluster string
	// Version is this build's version.
	Version string
	// RequestTimeout bounds one request to an API server, watches included; 0
	// leaves it to package csr.
	RequestTimeout time.Duration
	// Prompter is asked when a context of kubehsm's own has to sign in; nil
	// means that nobody can be asked.
	Prompter hsm.Prompter
	// Waiting, if not nil, shows why such a sign-in, or an unlock, waits; see
	// [agent.Client].
	Waiting func(ctx context.Context, w wire.Wait) (done func())
}

// waiting is Waiting for one operation.
func (e *Env) waiting(ctx context.Context) func(wire.Wait) (done func()) {
	if e.Waiting == nil {
		return nil
	}
	return func(w wire.Wait) (done func()) { return e.Waiting(ctx, w) }
}

func (e *Env) enrollments() enrollment.Store { return enrollment.NewStore(e.Dirs) }

func (e *Env) bridge() (bridge.Endpoint, error) { return bridge.Setup(e.Dirs) }
