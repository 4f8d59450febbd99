//go:build linux && cgo

package faults

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// of are the processes of a role.
func (e *episode) of(who role) []int {
	all, err := e.processes()
	if err != nil {
		e.fail(err)
	}
	return all[who]
}

// between compares what must be true after a fault, before anything is run again.
func (e *episode) between(d *deed, before []byte) (err error) {
	if e.middle, err = e.config(); err != nil {
		return err
	}
	if !d.edits && !bytes.Equal(e.middle, before) {
		return errors.New("the kubeconfig has changed")
	}
	if d.want != nil && !bytes.Equal(e.middle, before) && !bytes.Equal(e.middle, d.want) {
		return fmt.Errorf("the kubeconfig is neither what it was nor what it was before that:\n%s", e.middle)
	}
	if err := e.backed(before, e.middle); err != nil {
		return err
	}
	return errors.Join(e.files(), e.consents(), e.token.healthy(len(e.of(worker)) > 0 || len(e.of(command)) > 0))
}

// backed: what takes a change of the kubeconfig back is there before the change is.
func (e *episode) backed(before, now []byte) error {
	if bytes.Equal(before, now) {
		return nil
	}
	backups, err := filepath.Glob(filepath.Join(e.Home, "state", "kubeconfig", "*.json"))
	if err != nil {
		return err
	}
	was, is := fmt.Sprintf("%x", sha256.Sum256(before)), fmt.Sprintf("%x", sha256.Sum256(now))
	for _, file := range backups {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte(was)) && bytes.Contains(b, []byte(is)) {
			return nil
		}
	}
	return fmt.Errorf("no backup of the kubeconfig's change, from %s to %s", was, is)
}

// compare compares all that must be true when a command has come to its end.
func (e *episode) compare(ctx context.Context) error {
	return errors.Join(e.files(), e.consents(), e.token.healthy(true), e.keys(), e.noLock(), e.zombies())
}

// files: each record is whole, and each fault has left two files half-written at the most:
// who changes a kubeconfig has the new one and its backup in hand.
func (e *episode) files() error {
	var errs []error
	err := filepath.WalkDir(filepath.Join(e.Dir, "v"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !json.Valid(b) {
			err = fmt.Errorf("%s is no JSON: %q", path, b)
		}
		errs = append(errs, err)
		return nil
	})
	// A living process may be in the middle of one.
	var left []string
	var lerr error
	if !poll.Within(5*time.Second, func() bool {
		left, lerr = e.unfinished()
		return lerr == nil && len(left) <= 2*e.struck
	}) {
		errs = append(errs, fmt.Errorf("unfinished: %s, by %d faults", left, e.struck))
	}
	return errors.Join(append(errs, err, lerr)...)
}

// consents: no policy is in force but the one that was confirmed last.
func (e *episode) consents() error {
	var errs []error
	for name, en := range e.model.enrolled {
		b, err := os.ReadFile(filepath.Join(e.Home, "state", "enrollments", name+".json"))
		var stored struct{ Policy string }
		if err == nil {
			err = json.Unmarshal(b, &stored)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if stored.Policy == "" {
			stored.Policy = "session"
		}
		may := en.may
		if may == nil {
			may = []string{en.policy}
		}
		if !slices.Contains(may, stored.Policy) {
			errs = append(errs, fmt.Errorf("the policy of %s is %s, must be one of %s", name, stored.Policy, may))
		}
	}
	return errors.Join(errs...)
}

// keys: the token holds one for each enrollment, and no other.
func (e *episode) keys() error {
	n, err := e.token.keys()
	if err == nil && n != len(e.model.enrolled) {
		err = fmt.Errorf("%d keys on the token, %d enrollments", n, len(e.model.enrolled))
	}
	return err
}

// noLock: nobody is kept from the kubeconfig.
func (e *episode) noLock() error {
	left, err := filepath.Glob(e.Kubeconfig + ".lock*")
	if err == nil && len(left) > 0 && !e.lockLeft {
		err = fmt.Errorf("left: %s", left)
	}
	return err
}

// zombies: who starts processes waits for them.
func (e *episode) zombies() error {
	ours, err := e.Processes()
	if err != nil {
		return err
	}
	var dead string
	gone := func() bool {
		dead = ""
		stats, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			return false
		}
		for _, file := range stats {
			b, err := os.ReadFile(file)
			if err != nil {
				continue // The process has ended.
			}
			text := string(b[bytes.LastIndexByte(b, ')')+1:])
			f := strings.Fields(text)
			parent, err := strconv.Atoi(f[1])
			if err == nil && f[0] == "Z" && ours[parent] != "" {
				dead = string(b) + " of " + ours[parent]
			}
		}
		return dead == ""
	}
	if !poll.Within(5*time.Second, gone) {
		return fmt.Errorf("a zombie: %s", dead)
	}
	return nil
}

// foreign: what others have in the kubeconfig is as it was.
func (e *episode) foreign(now []byte) error {
	was, err := parse(e.model.first)
	is, ierr := parse(now)
	if err = errors.Join(err, ierr); err != nil {
		return err
	}
	if head, _, _ := bytes.Cut(e.model.first, []byte("\n")); !bytes.HasPrefix(now, head) {
		return errors.New("the kubeconfig has lost its comment")
	}
	for _, kind := range []func(kubeconfig) (map[string]string, error){
		func(c kubeconfig) (map[string]string, error) { return names(c.Clusters) },
		func(c kubeconfig) (map[string]string, error) { return names(c.Contexts) },
		func(c kubeconfig) (map[string]string, error) { return names(c.Users) },
	} {
		a, err := kind(was)
		b, berr := kind(is)
		if err = errors.Join(err, berr); err != nil {
			return err
		}
		for name, text := range a {
			if b[name] != text {
				return fmt.Errorf("the kubeconfig's entry %s was\n%s\nand is\n%s", name, text, b[name])
			}
		}
		for name := range b {
			if a[name] == "" && e.model.enrolled[name] == nil && name != e.begun {
				return fmt.Errorf("the kubeconfig has an entry %s, which is nobody's", name)
			}
		}
	}
	return nil
}

// locked: no token is open, the agent says so, and nobody is served without the PIN.
func (e *episode) locked(ctx context.Context) error {
	st, err := e.status(ctx)
	if err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	for _, t := range st.Tokens {
		if t.Unlocked {
			return fmt.Errorf("the agent says that %v is unlocked", t.URI)
		}
	}
	return e.served(ctx, false)
}

// truthful: the agent serves just if it says that it does.
func (e *episode) truthful(ctx context.Context) error {
	st, err := e.status(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return e.served(ctx, false)
	}
	if err != nil {
		return err
	}
	open := slices.ContainsFunc(st.Tokens, func(t message.TokenStatus) bool { return t.Unlocked })
	return e.served(ctx, open)
}

func (e *episode) status(ctx context.Context) (message.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return e.Status(ctx)
}

// served: kubectl, with nobody to ask, is served or not, by an enrollment whose
// policy lets it read.
func (e *episode) served(ctx context.Context, want bool) error {
	for _, name := range e.model.order {
		if !e.entry(name) || e.model.enrolled[name].policy == "always" {
			continue
		}
		res, err := e.run(ctx, patience, lab.Run{}, e.Cluster.Kubectl(), "--context", name, "get", "--raw", "/version")
		if err == nil && (res.Code == 0) != want {
			err = fmt.Errorf("kubectl with %s is served: %v, must be: %v: %s", name, !want, want, res)
		}
		return err
	}
	return nil
}

// nobodyLeft: no process remains, and nobody has the bridge's port.
func (e *episode) nobodyLeft(ctx context.Context) error {
	var left map[int]string
	var err error
	if !poll.Within(10*time.Second, func() bool {
		left, err = e.Processes()
		return err == nil && len(left) == 0
	}) {
		return errors.Join(fmt.Errorf("processes are left: %v", left), err)
	}
	if address := e.bridge(); address != "" {
		if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			c.Close()
			return fmt.Errorf("somebody listens on %s", address)
		}
	}
	return errors.Join(e.token.healthy(false), ctx.Err())
}

// bridge is its address, as the kubeconfig has it; "" if nothing is there of it.
func (e *episode) bridge() string {
	b, err := e.config()
	if err != nil {
		return ""
	}
	_, rest, found := strings.Cut(string(b), "https://127.0.0.1:")
	for found {
		host, path, _ := strings.Cut(rest, "/")
		if strings.HasPrefix(path, "c/") {
			return "127.0.0.1:" + host
		}
		_, rest, found = strings.Cut(rest, "https://127.0.0.1:")
	}
	return ""
}

// certificate is the enrollment's, as it is stored.
func (e *episode) certificate(name string) (string, error) {
	found, err := filepath.Glob(filepath.Join(e.Home, "state", "certificates", "*", name+".pem"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%d certificates of %s: %w", len(found), name, err)
	}
	b, err := os.ReadFile(found[0])
	return string(b), err
}
