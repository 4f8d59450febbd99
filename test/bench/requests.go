//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig"
)

const manyRequests = 10_000

// requests measures lists that are long: an approver's, beside kubectl's own.
func (b *bench) requests(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "file", manyRequests, "requests")
	if err := b.fileRequests(ctx); err != nil {
		return fmt.Errorf("file %d requests: %w", manyRequests, err)
	}
	env := append(b.lab.Env(), "KUBECONFIG="+b.lab.Cluster.AdminKubeconfig())
	ours := func(args ...string) program {
		return program{path: b.lab.Binary, args: append([]string{"csr", "list"}, args...), env: env}
	}
	theirs := program{path: b.lab.Cluster.Kubectl(), args: []string{"get", "csr"}, env: env}
	for _, r := range []struct {
		what string
		ours program
	}{
		{"`kubehsm csr list`, 10,000 requests", ours()},
		{"`kubehsm csr list --pending`, 10,000 of 10,000", ours("--pending")},
		{"`kubehsm csr list -o json`, 10,000 requests", ours("-o", "json")},
	} { // each takes seconds
		if err := b.compare(ctx, row{what: r.what, against: "`kubectl get csr` (the server makes the table)"}, min(b.n, 5),
			r.ours, theirs); err != nil {
			return err
		}
	}
	return nil
}

// fileRequests files them as the admin, a few at a time.
func (s *stage) fileRequests(ctx context.Context) error {
	config, err := kubeconfig.Rules{Explicit: s.lab.Cluster.AdminKubeconfig()}.RESTConfig(ctx, "")
	if err != nil {
		return err
	}
	client, err := csr.NewClient(config)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	pem, err := csr.NewRequest(key, csr.Subject{User: "many", Groups: []string{group}}, csr.RequestOptions{})
	if err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(16)
	for i := range manyRequests {
		work.Go(func() error {
			_, err := client.Create(ctx, csr.Spec{Name: fmt.Sprintf("many-%05d", i), Request: pem})
			return err
		})
	}
	return work.Wait()
}
