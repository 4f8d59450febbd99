package contexts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/port"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// BridgeMove is a change of the bridge's port, looked at before it is made.
type BridgeMove struct {
	// From and To are the addresses.
	From, To string
	// Enrollments are those whose kubeconfig entries lead to the bridge, in the
	// files that are looked at now.
	Enrollments []string

	from Contexts
	port int
}

// BridgeAddress is where the bridge listens, or would.
func (k Contexts) BridgeAddress() (string, error) {
	ep, err := k.env.Bridge()
	return ep.Address(), err
}

// MoveBridge plans to have the bridge on another port.
func (k Contexts) MoveBridge(ctx context.Context, port int) (*BridgeMove, error) {
	ep, err := k.env.Bridge()
	if err != nil {
		return nil, err
	}
	m := &BridgeMove{From: ep.Address(), from: k, port: port}
	ep.Port = port
	m.To = ep.Address()
	contexts, err := k.env.Rules().List(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range contexts {
		if c.User.Kind == kubeconfig.UserOurs && c.User.Enrollment != "" && c.Name == c.User.Enrollment &&
			!slices.Contains(m.Enrollments, c.Name) {
			m.Enrollments = append(m.Enrollments, c.Name)
		}
	}
	return m, nil
}

// Apply ends the agent, which cuts what is open, moves the port, and writes the
// kubeconfig entries, each to be taken back by itself. Where it fails midway, it
// can be run again.
func (m *BridgeMove) Apply(ctx context.Context) error {
	if err := (session.Agent{Env: m.from.env}).StopAgent(ctx, nil); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	if err := port.Release(m.from.env.Dirs); err != nil {
		return err
	}
	if _, err := loopback.Move(m.from.env.Dirs, m.port); err != nil {
		return err
	}
	for _, name := range m.Enrollments {
		change, err := m.from.Set(ctx, name, false, false)
		if err == nil {
			err = change.Apply(ctx)
		}
		if err != nil {
			return fmt.Errorf("the kubeconfig entry of %s: %w", name, err)
		}
	}
	return nil
}
