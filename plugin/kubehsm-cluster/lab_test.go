package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/fleet"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// lab is a real control plane with the approver's manifests in it, and the program,
// started as the Deployment says: its service account, its flags.
type lab struct {
	t        testing.TB
	c        *controlplane.Cluster
	maker    *vcard.CA
	approver *fleet.Approver
	gate     string // kubeconfig that leads the approver through a [gate], "" for its own
}

func newLab(t testing.TB, o controlplane.Options) *lab {
	t.Helper()
	l := &lab{t: t, c: controlplane.StartForTest(t, o)}
	dir := t.TempDir()
	program := filepath.Join(dir, "kubehsm-cluster")
	if err := fleet.BuildApprover(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.maker, err = vcard.NewCA("the maker"); err != nil {
		t.Fatal(err)
	}
	if l.approver, err = fleet.Install(t.Context(), l.c, l.maker, program, dir); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) kubectl(args ...string) string {
	l.t.Helper()
	out, err := l.c.Admin(l.t.Context(), "", args...)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

func (l *lab) apply(manifests string) {
	l.t.Helper()
	if err := l.c.Apply(l.t.Context(), manifests); err != nil {
		l.t.Fatal(err)
	}
}

// quota waits until the cluster counts Revocations: before, it takes none from anybody.
func (l *lab) quota() {
	l.t.Helper()
	poll.Until(l.t, "Revocations are counted", func() bool {
		return strings.Contains(l.kubectl("-n", clusterapi.Namespace, "get", "resourcequota", "kubehsm-revocations", "-ojsonpath={.status.used}"),
			"revocations")
	})
}

// replica is one process of the program.
type replica struct {
	cmd             *exec.Cmd
	metrics, probes string
	said            *bytes.Buffer
	ended           chan struct{} // channel that the end of the process closes
}

func (l *lab) start() *replica {
	l.t.Helper()
	r := &replica{metrics: freeAddress(l.t), probes: freeAddress(l.t), said: &bytes.Buffer{}, ended: make(chan struct{})}
	r.cmd = l.approver.Command(r.metrics, r.probes)
	if l.gate != "" {
		r.cmd.Args = append(r.cmd.Args, "--kubeconfig="+l.gate) // the last one counts
	}
	r.cmd.Stderr = r.said
	if err := r.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // how it ended, it says in its log
	}()
	l.t.Cleanup(func() {
		r.kill()
		if l.t.Failed() {
			all := strings.Split(r.said.String(), "\n")
			l.t.Logf("replica %d:\n%s", r.cmd.Process.Pid, strings.Join(all[max(0, len(all)-30):], "\n"))
		}
	})
	return r
}

// kill ends it without a word; it may have ended.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill()
	<-r.ended
}

// alive tells whether the process has not ended by itself.
func (r *replica) alive() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

func (r *replica) get(ctx context.Context, address, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func freeAddress(t testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
