package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

// rights are the trial's RBAC objects.
//
//go:embed rights.yaml
var rights string

// ensureCluster starts the parts of the control plane that do not run yet.
func ensureCluster(ctx context.Context, t *trial) error {
	if runs, err := controlplane.Runs(t.cluster()); err != nil || runs {
		return err
	}
	fmt.Println("  a control plane, compiled from its published modules if need be (this takes minutes the first time)")
	bin, err := controlplane.Build(ctx, tellProgress())
	if err != nil {
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

// tellProgress says how far the build is, every few seconds.
func tellProgress() controlplane.Progress {
	began, said := time.Now(), time.Now()
	return func(at controlplane.Stage, done, total int) {
		if total > 0 && time.Since(said) > 5*time.Second {
			fmt.Printf("  %s the control plane: %d of %d after %s\n", at, done, total, time.Since(began).Round(time.Second))
			said = time.Now()
		}
	}
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
