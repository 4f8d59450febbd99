//go:build linux

package lab

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
)

// noRoster is a cluster without a roster.
type noRoster struct{}

func (noRoster) Token(string) (*clusterapi.HardwareToken, error)        { return nil, nil }
func (noRoster) TokenWithKey(string) (*clusterapi.HardwareToken, error) { return nil, nil }
func (noRoster) Others(string, types.UID) iter.Seq2[judge.Other, error] {
	return func(func(judge.Other, error) bool) {}
}
func (noRoster) UsedFor(string) (types.UID, error)        { return "", nil }
func (noRoster) Revoked(string, string) ([]string, error) { return nil, nil }

// Approves has requests judged as the approver in a cluster does, until the test ends.
func Approves(t testing.TB, cluster *controlplane.Cluster) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", cluster.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := csr.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	j, err := judge.New(clusterapi.PolicySpec{RenewUnrostered: true, DeskUsers: []string{"*"}, DeskGroups: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for event, err := range client.Follow(ctx, csr.ListOptions{}) {
			if err != nil {
				ended <- err
				return
			}
			d, err := j.Decide(event.Object, noRoster{}, time.Now())
			if err == nil && d.Verdict == judge.Approve {
				_, err = client.Approve(ctx, event.Object, csr.Decision{Reason: d.Reason, Message: d.Message})
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
