//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
)

// older is the commit of the program whose state, agents and clients today's
// program works with, and which works with today's.
const older = "7d3a47f"

// buildOlder builds that program from the checkout's history.
func buildOlder(t *testing.T, version string) string {
	t.Helper()
	checkout, err := controlplane.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sources := filepath.Join(dir, "sources.tar")
	archive := exec.CommandContext(t.Context(), "git", "-C", checkout, "archive", "-o", sources, older)
	if said, err := archive.CombinedOutput(); err != nil {
		need.Missing(t, "the history of this checkout has no commit "+older+": "+string(said))
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), "tar", "-xf", sources, "-C", root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return build(t, root, version)
}

// build builds the program at root, of that version.
func build(t *testing.T, root, version string) string {
	t.Helper()
	out, err := lab.BuildPackage(t.Context(), t.TempDir(), "kubehsm", root, ".",
		"-X github.com/kubehsm/kubehsm/ui.version="+version)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// upgrade puts another program in the place of the user's, as a package manager does.
func (u *user) upgrade(program string) {
	u.t.Helper()
	b, err := os.ReadFile(program)
	if err != nil {
		u.t.Fatal(err)
	}
	fresh := u.Binary + ".new"
	if err := errors.Join(os.WriteFile(fresh, b, 0o700), os.Rename(fresh, u.Binary)); err != nil {
		u.t.Fatal(err)
	}
}

// works has the user's program and kubectl do what changes nothing.
func (u *user) works() {
	u.t.Helper()
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		u.t.Errorf("kubectl is %q", out)
	}
	for _, args := range [][]string{
		{"agent", "status"}, {"token", "list"}, {"kubeconfig", "list"}, {"kubeconfig", "history"},
		{"certificate", "show", enrolled}, {"audit"}, {"csr", "list", "--mine", "--context", lab.Context},
	} {
		if out := u.kubehsm(args...); out == "" {
			u.t.Errorf("%v says nothing", args)
		}
	}
}

// TestOlderProgram: an upgrade, and the way back, lose nothing: each program reads
// what the other has written, and talks to the other's agent.
func TestOlderProgram(t *testing.T) {
	t.Parallel()
	checkout, err := controlplane.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	before, now := buildOlder(t, "v1.0.0"), build(t, checkout, "v2.0.0")
	u := newUser(t, lab.Options{})
	u.upgrade(before)
	u.enroll()
	request := u.file(u.key("second"), "--context", lab.Context, "--user", "jane")
	first := u.agentStatus()
	if first.Version != "v1.0.0" {
		t.Fatalf("the agent is of version %s", first.Version)
	}
	t.Run("its agent with today's client", func(t *testing.T) {
		u := u.in(t)
		ctx, cancel := context.WithCancel(t.Context())
		watch := make(chan error, 1)
		started := make(chan int, 1)
		go func() {
			_, err := u.Run(ctx, lab.Run{Started: func(pid int) { started <- pid }}, "kubectl", "get", "namespaces", "--watch",
				"-o", "name")
			watch <- err
		}()
		<-started
		u.upgrade(now)
		u.works()
		if s := u.agentStatus(); s.PID != first.PID || s.Signatures != first.Signatures {
			t.Errorf("process %d with %d signatures, was %d with %d", s.PID, s.Signatures, first.PID, first.Signatures)
		}
		u.kubehsm("agent", "lock")
		u.kubehsm("agent", "stop")
		cancel()
		<-watch // kubectl was killed
	})
	t.Run("its state", func(t *testing.T) {
		u := u.in(t)
		if err := u.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := u.agentStatus(); s.Version != "v2.0.0" {
			t.Errorf("the agent is of version %s", s.Version)
		}
		u.works()
		if out := u.kubehsm("csr", "list", "--mine", "--context", lab.Context); !strings.Contains(out, request) {
			t.Errorf("the request %s is not listed:\n%s", request, out)
		}
		u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "certificate", "renew", enrolled, "--yes", "--with", lab.Context, "--approve-with",
			u.Cluster.AdminKubeconfig()))
		u.works()
	})
	t.Run("its client with today's agent", func(t *testing.T) {
		u := u.in(t)
		s := u.agentStatus()
		u.upgrade(before)
		// Today's entry has an argument that this program does not know. It cannot write its
		// own: the bridge's key is sealed.
		res := u.ran(u.Kubehsm(t.Context(), "kubeconfig", "set", enrolled, "--yes"))
		u.wantFailure(res, 1, "", "the bridge's identity is damaged")
		if !strings.Contains(res.Stderr, "hint: remove "+filepath.Join(u.Home, "state", "bridge")) {
			t.Errorf("it says nothing of what to do: %s", res)
		}
		entry, err := os.ReadFile(u.Kubeconfig)
		must(t, err)
		understood := regexp.MustCompile(`\n *- --api-version\n *- v1beta1`).ReplaceAll(entry, nil)
		if bytes.Equal(entry, understood) {
			t.Fatalf("the argument is not there:\n%s", entry)
		}
		must(t, os.WriteFile(u.Kubeconfig, understood, 0o600))
		u.works()
		if now := u.agentStatus(); now.PID != s.PID || now.Signatures != s.Signatures {
			t.Errorf("process %d with %d signatures, was %d with %d", now.PID, now.Signatures, s.PID, s.Signatures)
		}
		u.kubehsm("agent", "lock")
	})
	t.Run("on today's state", func(t *testing.T) {
		u := u.in(t)
		u.kubehsm("agent", "stop")
		if res := u.ran(u.Kubectl(t.Context(), "get", "namespaces")); res.Code == 0 ||
			!strings.Contains(res.Stderr, "the bridge's identity is damaged") {
			t.Errorf("it says nothing of the sealed key: %s", res)
		}
		must(t, os.RemoveAll(filepath.Join(u.Home, "state", "bridge"))) // The hint says to do so.
		u.kubehsm("kubeconfig", "set", enrolled, "--yes")
		if err := u.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := u.agentStatus(); s.Version != "v1.0.0" {
			t.Errorf("the agent is of version %s", s.Version)
		}
		u.works()
		if out := u.kubehsm("csr", "list", "--mine", "--context", lab.Context); !strings.Contains(out, request) {
			t.Errorf("the request %s is not listed:\n%s", request, out)
		}
	})
	t.Run("today's program again", func(t *testing.T) {
		u := u.in(t)
		u.kubehsm("agent", "stop")
		u.upgrade(now) // the lab is closed by this program, too
		if err := u.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		u.works()
		if _, err := os.Lstat(filepath.Join(u.Home, "state", "bridge", "server.key")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the key of the bridge lies open: %v", err)
		}
	})
}
