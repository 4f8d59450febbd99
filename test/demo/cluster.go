package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// rights are the trial's RBAC objects.
//
//go:embed rights.yaml
var rights string

// background builds and starts the control plane, and tells how far it is in
// the progress file. `up` runs it beside itself: it goes on when `up` ends.
func background(ctx context.Context, t *trial) error {
	if err := recordSelf(t.backgroundFile()); err != nil {
		return err
	}
	s := status{trial: t, started: time.Now()}
	if err := s.set(string(controlplane.Fetching), 0, 0, "looking for what is to build"); err != nil {
		return err
	}
	// `up` waits for this: from here on the process can be found and stopped.
	if err := os.NewFile(3, "recorded").Close(); err != nil {
		return err
	}
	if err := provide(ctx, t, s); err != nil {
		message := err.Error()
		if ctx.Err() != nil {
			message = "stopped"
		}
		return errors.Join(err, s.set(phaseFailed, 0, 0, message))
	}
	return s.set(phaseReady, 0, 0, "the cluster is ready")
}

// provide makes the control plane run, whatever is there of it already.
func provide(ctx context.Context, t *trial, s status) error {
	var writing error
	bin, err := controlplane.Build(ctx, func(at controlplane.Stage, done, total int) {
		message := "compiling the control plane"
		if at == controlplane.Fetching {
			message = "fetching the control plane's modules"
		}
		writing = errors.Join(writing, s.set(string(at), done, total, message))
	})
	if err = errors.Join(err, writing); err != nil {
		return err
	}
	if err := s.set(phaseStarting, 0, 0, "starting etcd, the API server and the controller manager"); err != nil {
		return err
	}
	if err := controlplane.StopDir(ctx, t.cluster()); err != nil { // remains of a start that was cut short
		return err
	}
	c, err := controlplane.Start(ctx, t.cluster(), controlplane.Options{Bin: bin, Detached: true})
	if err != nil {
		return err
	}
	if err := equip(ctx, t, c); err != nil {
		return errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// equip gives the trial's people their rights and kubeconfig files.
func equip(ctx context.Context, t *trial, c *controlplane.Cluster) error {
	if err := errors.Join(c.Apply(ctx, rights), c.PublishInfo(ctx, c.Server())); err != nil { // tickets need it
		return err
	}
	kubectl := t.kubectl()
	if err := os.Remove(kubectl); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(c.Kubectl(), kubectl); err != nil {
		return err
	}
	if err := c.WriteKubeconfig(t.adminKubeconfig(), contextIn, "trial-admin", "system:masters"); err != nil {
		return err
	}
	// The user's file holds what an enrollment wrote: it is made once.
	if _, err := os.Stat(t.kubeconfig()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return c.WriteKubeconfig(t.kubeconfig(), contextIn, "trial-bootstrap")
}

// ensureCluster starts background unless the cluster runs or is on its way.
func ensureCluster(ctx context.Context, t *trial) error {
	if recorded(t.backgroundFile()).Alive() {
		return nil
	}
	runs, err := controlplane.Runs(t.cluster())
	if err != nil {
		return err
	}
	if runs {
		if p, err := cluster.ReadProgress(t.progressFile()); err == nil && p.Ready() {
			return nil
		}
	}
	return startBackground(ctx, t)
}

func startBackground(ctx context.Context, t *trial) error {
	program := t.path("bin", "demo")
	if err := copySelf(program); err != nil {
		return err
	}
	log, err := os.OpenFile(t.clusterLog(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	recorded, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer recorded.Close()
	cmd := exec.Command(program, "cluster", t.dir)
	cmd.Env, cmd.Stdout, cmd.Stderr = t.env(), log, log
	cmd.ExtraFiles = []*os.File{held}
	detach(cmd)
	err = cmd.Start()
	if err := errors.Join(err, held.Close()); err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	go cmd.Wait() // reaps it; how it went is in the progress file
	_, err = io.Copy(io.Discard, recorded)
	return err
}

// copySelf puts this program where it lasts: `go run` removes its own.
func copySelf(target string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return replace(target, b, 0o700)
}
