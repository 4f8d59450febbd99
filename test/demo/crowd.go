package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/fleet"
)

// The people of the show. Those who have a name here are in for something else than a certificate.
const (
	greedy = "oscar" // asks for a group that the roster does not give
	stray  = "pam"   // comes with a token that is not on the roster
	loser  = "quinn" // loses the token afterwards
	late   = "tess"  // does not come
)

// firstSerial is that of the first card; the stray's is another.
const firstSerial, straySerial = 20000001, 66600066

var names = []string{"anna", "bob", "carl", "dora", "emil", "fay", "gus", "hugo", "ida", "jane", "kim", "liz", "max",
	"nora", greedy, stray, loser, "rosa", "sam", late}

// approver is the program that decides in the cluster of the show of many people.
func (t *trial) approver() string { return t.path("bin", "kubehsm-cluster") }

// upFleet builds what the show of many people needs, and runs [show]: it has no network, where nothing could be
// fetched.
func upFleet(ctx context.Context, t *trial) error {
	if err := t.claim(); err != nil {
		return err
	}
	release, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := recordSelf(t.upFile()); err != nil {
		return err
	}
	fmt.Printf("The trial lives in %s; your own kubeconfig and tokens are not touched.\n", t.dir)
	heading("build kubehsm, the approver and a control plane (this takes minutes the first time)")
	if err := buildKubehsm(ctx, t); err != nil {
		return err
	}
	if err := fleet.BuildApprover(ctx, t.approver()); err != nil {
		return err
	}
	said := time.Now()
	_, err = controlplane.Build(ctx, func(_ controlplane.Stage, done, total int) {
		if total > 0 && time.Since(said) > 5*time.Second {
			fmt.Printf("  the control plane: %d/%d\n", done, total)
			said = time.Now()
		}
	})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err = t.command(ctx, self, "show", t.dir).attached(); err != nil {
		err = fmt.Errorf("%w: %w", errSaid, err)
	}
	return err
}
