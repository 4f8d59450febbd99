//go:build linux

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
)

const (
	// Enrolled is the name, and the context, that an enrollment from [Context] gets.
	Enrolled = Context + "-hsm"
	// User is who [Lab.Enroll] enrolls.
	User = "jane"
)

// Enroll enrolls [User] in groups ([DevelopersGroup] if none is given), unattended,
// with the approval of the cluster's admin. The kubeconfig's current context is
// [Enrolled] after it.
func (l *Lab) Enroll(ctx context.Context, groups ...string) error {
	if len(groups) == 0 {
		groups = []string{DevelopersGroup}
	}
	args := []string{"enroll", "--user", User, "--approve-with", l.Cluster.AdminKubeconfig(), "--yes"}
	for _, g := range groups {
		args = append(args, "--group", g)
	}
	if _, err := Succeeded(l.KubehsmPIN(ctx, PIN, args...)); err != nil {
		return fmt.Errorf("enroll: %w", err)
	}
	return nil
}

// Unlock gives the agent the PIN.
func (l *Lab) Unlock(ctx context.Context) error {
	if _, err := Succeeded(l.KubehsmPIN(ctx, PIN, "unlock", Enrolled)); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// Status is what the agent says of itself. The error is [agent.ErrNotRunning] if
// there is none.
func (l *Lab) Status(ctx context.Context) (message.Status, error) {
	var s struct {
		Running bool `json:"running"`
		message.Status
	}
	out, err := Succeeded(l.Kubehsm(ctx, "agent", "status", "-o", "json"))
	if err != nil {
		return s.Status, err
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return s.Status, fmt.Errorf("%w in %q", err, out)
	}
	if !s.Running {
		return s.Status, client.ErrNotRunning
	}
	return s.Status, nil
}

// WaitForAgent returns the running agent's status as soon as is holds for it;
// ctx bounds the wait.
func (l *Lab) WaitForAgent(ctx context.Context, is func(message.Status) bool) (message.Status, error) {
	var last message.Status
	for {
		s, err := l.Status(ctx)
		if err == nil {
			last = s
			if is(s) {
				return s, nil
			}
		}
		select {
		case <-ctx.Done():
			return last, errors.Join(fmt.Errorf("waited in vain for the agent; it was %+v", last), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Succeeded returns the output of a program that must succeed.
func Succeeded(res Result, err error) (string, error) {
	if err == nil && res.Code != 0 {
		err = errors.New(res.String())
	}
	return res.Stdout, err
}
