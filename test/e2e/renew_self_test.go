//go:build linux

package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// noRoster is a cluster without a roster, and where nobody may take the rights of others.
type noRoster struct{}

func (noRoster) Token(string) (*clusterapi.HardwareToken, error)        { return nil, nil }
func (noRoster) TokenWithKey(string) (*clusterapi.HardwareToken, error) { return nil, nil }
func (noRoster) Others(string, types.UID) ([]judge.Other, error)        { return nil, nil }
func (noRoster) Revoked(string, string) ([]string, error)               { return nil, nil }
func (noRoster) Escalates(csr.Subject) (string, error)                  { return "", nil }

// approves has requests judged as the approver in a cluster does, until the test ends.
func (u *user) approves() {
	u.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", u.Cluster.AdminKubeconfig())
	if err != nil {
		u.t.Fatal(err)
	}
	client, err := csr.NewClient(config)
	if err != nil {
		u.t.Fatal(err)
	}
	j, err := judge.New(clusterapi.PolicySpec{RenewUnrostered: true})
	if err != nil {
		u.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(u.t.Context())
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
	u.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			u.t.Error(err)
		}
	})
}

// certificate is the one that the agent signs in with.
func (u *user) certificate(r result) *x509.Certificate {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.Home, "state", "certificates", r.Fingerprint, enrolled+".pem"))
	if err != nil {
		u.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		u.t.Fatal(err)
	}
	return c
}

// TestRenewsItself: where the cluster approved the last request by itself, the agent renews a certificate
// of ten minutes that is due, twice in a row, while kubectl watches. Nobody is asked.
func TestRenewsItself(t *testing.T) {
	t.Parallel()
	cluster, err := controlplane.Start(t.Context(), t.TempDir(), controlplane.Options{}) // in which developers may file requests
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(t.Context()); err != nil {
			t.Log(err)
		}
	})
	u := newUser(t, lab.Options{Cluster: cluster})
	u.enroll("--expiration", "10m")
	u.mayFile()
	u.approves()
	r := u.parse(u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "certificate", "renew", enrolled, "--yes", "-o", "json")))
	watch := u.sh("kubectl get namespaces --watch -o name")
	watch.WaitFor("namespace/default")
	for _, name := range []string{"renewed-once", "renewed-twice"} {
		now := time.Now()
		u.replaceCertificate(r, now.Add(-8*time.Minute), now.Add(2*time.Minute)) // seven of ten minutes have gone by
		due := u.certificate(r)
		u.kubectl("get", "namespaces") // The agent signs in with that one.
		u.eventually("the certificate was renewed", func() bool { return !u.certificate(r).Equal(due) })
		if c := u.certificate(r); c.NotAfter.Before(now.Add(9*time.Minute)) || c.NotAfter.After(time.Now().Add(11*time.Minute)) {
			t.Errorf("the next one ends %s, now it is %s", c.NotAfter, now)
		}
		u.admin("create", "namespace", name)
		watch.WaitFor("namespace/" + name)
		u.kubectl("get", "namespaces")
	}
	if out := u.kubehsm("audit"); !strings.Contains(out, "renewal") {
		t.Errorf("the audit log has no renewal:\n%s", out)
	}
}
