//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

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
	mine, err := peak(ctx, ours("-o", "json"))
	if err != nil {
		return err
	}
	whole, err := peak(ctx, program{path: theirs.path, args: []string{"get", "csr", "-o", "json"}, env: env})
	if err != nil {
		return err
	}
	b.found("peak memory of `kubehsm csr list -o json` for 10,000 requests, and of `kubectl get csr -o json`", "–",
		"%d MB, %d MB", mine>>20, whole>>20)
	first, err := firstEvents(ctx, ours("--pending", "--watch"), manyRequests)
	if err != nil {
		return err
	}
	b.found("`kubehsm csr list --pending --watch`: 10,000 shown, watching, after", "–", "%s", milliseconds(first))
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

// peak is the largest resident memory of a run, in bytes.
func peak(ctx context.Context, p program) (int64, error) {
	_, state, err := p.ended(ctx)
	if err != nil {
		return 0, err
	}
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, fmt.Errorf("%s: no account of its memory", p.path)
	}
	return usage.Maxrss << 10, nil
}

// firstEvents is how long a program takes to write so many lines.
func firstEvents(ctx context.Context, p program, lines int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env = p.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for seen := 0; seen <= lines; { // the heading is a line too
		n, err := out.Read(buf)
		if err != nil {
			return 0, fmt.Errorf("%s %s: %d lines, then %w", p.path, strings.Join(p.args, " "), seen, err)
		}
		seen += strings.Count(string(buf[:n]), "\n")
	}
	took := time.Since(begin)
	cancel()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed above
	return took, nil
}
