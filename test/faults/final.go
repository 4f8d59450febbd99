//go:build linux && cgo

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// finalCheck compares, at an episode's end, what takes longer to look at.
func (e *episode) finalCheck(ctx context.Context) error {
	e.history = append(e.history, "at the end")
	for _, check := range []func(context.Context) error{e.requests, e.readable, e.swept, e.lockedAtLast, e.stopped} {
		if err := check(ctx); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	return nil
}

// requests: the cluster has one request for each time that somebody asked for a
// certificate, and each has got one.
func (e *episode) requests(ctx context.Context) error {
	out, err := e.Cluster.Admin(ctx, "", "get", "csr", "-o", "json")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Certificate []byte }
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return err
	}
	for _, en := range e.model.enrolled {
		if !strings.HasSuffix(en.user, e.id) {
			continue // a name that all episodes share
		}
		var found []string
		for _, r := range list.Items {
			if !strings.HasPrefix(r.Metadata.Name, en.user) {
				continue
			}
			found = append(found, r.Metadata.Name)
			if len(r.Status.Certificate) == 0 {
				return fmt.Errorf("the request %s is left without a certificate", r.Metadata.Name)
			}
		}
		if len(found) < 1 || len(found) > 1+en.renewals {
			return fmt.Errorf("%d requests of %s, who renewed %d times: %s", len(found), en.user, en.renewals, found)
		}
	}
	return nil
}

// bootstrapTokens are the IDs of those in the cluster that are for user.
func (e *episode) bootstrapTokens(ctx context.Context, user string) (ids []string, err error) {
	out, err := e.Cluster.Admin(ctx, "", "-n", "kube-system", "get", "secrets", "--field-selector",
		"type=bootstrap.kubernetes.io/token", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Data     struct{ Description []byte }
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		if strings.Contains(string(s.Data.Description), user) {
			ids = append(ids, strings.TrimPrefix(s.Metadata.Name, "bootstrap-token-"))
		}
	}
	return ids, nil
}

// endTickets ends each ticket for user: there is at least one.
func (e *episode) endTickets(ctx context.Context, user string) error {
	ids, err := e.bootstrapTokens(ctx, user)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("there is no bootstrap token for %s", user)
	}
	for _, id := range ids {
		err = errors.Join(err, e.endTicket(ctx, id))
	}
	return err
}

// endTicket ends a ticket, if that was not done.
func (e *episode) endTicket(ctx context.Context, id string) error {
	res, err := e.run(ctx, patience, lab.Run{Env: []string{"KUBECONFIG=" + e.Cluster.AdminKubeconfig()}}, e.Binary,
		"bootstrap-token", "delete", id)
	if err == nil && res.Code != 0 && !strings.Contains(res.Stderr, "no such bootstrap token") {
		err = errors.New(res.String())
	}
	return err
}

// readable: everything that was recorded can be read.
func (e *episode) readable(ctx context.Context) error {
	for _, args := range [][]string{{"audit"}, {"kubeconfig", "list"},
		{"consent", "show", e.model.order[0]}} {
		if _, err := lab.Succeeded(e.run(ctx, patience, lab.Run{}, e.Binary, append(args, "-o", "json")...)); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// swept: what killed processes have left half-written is removed once it is old.
func (e *episode) swept(ctx context.Context) error {
	left, err := e.unfinished()
	if err != nil || len(left) == 0 {
		return err
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, file := range left {
		if err := os.Chtimes(file, old, old); err != nil {
			return err
		}
	}
	// The agent looks when it starts, and who writes a kubeconfig does.
	name := e.model.order[0]
	for _, args := range [][]string{{"agent", "stop"}, {"unlock", name}, {"kubeconfig", "remove", name, "--yes"},
		{"kubeconfig", "set", name, "--yes"}, {"kubeconfig", "use", lab.Context, "--yes"}} {
		res, err := e.run(ctx, patience, lab.Run{PIN: e.token.pin()}, e.Binary, args...)
		removed := args[1] == "remove" && res.Code != 0 // What is there no more is not removed.
		if _, err := lab.Succeeded(res, err); err != nil && !removed {
			return err
		}
	}
	if left, err = e.unfinished(); err == nil && len(left) > 0 {
		err = fmt.Errorf("never removed: %s", left)
	}
	return err
}

// unfinished are the files that killed processes have left.
func (e *episode) unfinished() (found []string, err error) {
	err = filepath.WalkDir(filepath.Join(e.Dir, "v"), func(path string, f fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		name := filepath.Base(path)
		if err == nil && strings.HasPrefix(name, ".") &&
			(strings.Contains(name, ".tmp-") || strings.Contains(name, ".kubehsm-")) {
			found = append(found, path)
		}
		return err
	})
	return found, err
}

// lockedAtLast locks, and nobody is served.
func (e *episode) lockedAtLast(ctx context.Context) error {
	if _, err := lab.Succeeded(e.run(ctx, patience, lab.Run{}, e.Binary, "agent", "lock")); err != nil {
		return err
	}
	return e.locked(ctx)
}

// stopped ends the agent, and nothing is left.
func (e *episode) stopped(ctx context.Context) error {
	if _, err := lab.Succeeded(e.run(ctx, patience, lab.Run{}, e.Binary, "agent", "stop")); err != nil {
		return err
	}
	return e.nobodyLeft(ctx)
}
