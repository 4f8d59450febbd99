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
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig"
)

const (
	manyRequests = 10_000
	manyContexts = 5_000
)

// requests measures lists that are long: an approver's, beside kubectl's own.
func (t *table) requests(ctx context.Context, s *stage) error {
	fmt.Fprintln(os.Stderr, manyRequests, "requests")
	if err := fileRequests(ctx, s); err != nil {
		return fmt.Errorf("file %d requests: %w", manyRequests, err)
	}
	env := append(s.lab.Env(), "KUBECONFIG="+s.lab.Cluster.AdminKubeconfig())
	ours := func(args ...string) program {
		return program{path: s.lab.Binary, args: append([]string{"csr", "list"}, args...), env: env}
	}
	theirs := program{path: s.lab.Cluster.Kubectl(), args: []string{"get", "csr"}, env: env}
	n := min(t.n, 7) // each takes seconds
	for _, r := range []struct {
		what string
		ours program
	}{
		{"`kubehsm csr list`, 10,000 requests", ours()},
		{"`kubehsm csr list --pending`, 10,000 of 10,000", ours("--pending")},
		{"`kubehsm csr list -o json`, 10,000 requests", ours("-o", "json")},
	} {
		fmt.Fprintln(os.Stderr, r.what)
		p, err := measure(ctx, n, r.ours, theirs)
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		t.add(row{r.what, "`kubectl get csr` (the server makes the table)", p, "–"})
	}
	mine, err := peak(ctx, ours("-o", "json"))
	if err != nil {
		return err
	}
	whole, err := peak(ctx, program{path: theirs.path, args: []string{"get", "csr", "-o", "json"}, env: env})
	if err != nil {
		return err
	}
	first, err := firstEvents(ctx, ours("--pending", "--watch"), manyRequests)
	if err != nil {
		return err
	}
	t.counts = append(t.counts,
		count{"peak memory of `kubehsm csr list -o json` for 10,000 requests, and of `kubectl get csr -o json`", fmt.Sprintf("%d MB, %d MB", mine>>20, whole>>20), "–"},
		count{"`kubehsm csr list --pending --watch`: 10,000 shown, watching, after", milliseconds(first), "–"})
	return t.contexts(ctx, s)
}

// fileRequests files them as the admin, a few at a time.
func fileRequests(ctx context.Context, s *stage) error {
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
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env = p.env
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s %s: %w", p.path, strings.Join(p.args, " "), err)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
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
	for seen := 0; seen <= lines; { // one is the heading
		n, err := out.Read(buf)
		if err != nil {
			return 0, fmt.Errorf("%s %s: %d lines, then %w", p.path, strings.Join(p.args, " "), seen, err)
		}
		seen += strings.Count(string(buf[:n]), "\n")
	}
	took := time.Since(begin)
	cancel()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // it was ended
	return took, nil
}

// contexts measures a kubeconfig that is long: shown, and changed, beside
// kubectl's own commands.
func (t *table) contexts(ctx context.Context, s *stage) error {
	dir, err := os.MkdirTemp(s.lab.Dir, "contexts-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "config")
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Config\nclusters:\n")
	for i := range manyContexts {
		fmt.Fprintf(&b, "- cluster:\n    server: https://c%d.example:6443\n  name: c%d\n", i, i)
	}
	b.WriteString("contexts:\n")
	for i := range manyContexts {
		fmt.Fprintf(&b, "- context:\n    cluster: c%d\n    user: u%d\n  name: x%d\n", i, i, i)
	}
	b.WriteString("current-context: x0\nusers:\n")
	for i := range manyContexts {
		fmt.Fprintf(&b, "- name: u%d\n  user:\n    token: t%d\n", i, i)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return err
	}
	env := s.lab.Env()
	kubectl := func(args ...string) program {
		return program{path: s.lab.Cluster.Kubectl(), args: append(args, "--kubeconfig", file), env: env}
	}
	for _, r := range []struct {
		what, against string
		ours          []string
		theirs        program
	}{
		{"`kubehsm kubeconfig list`, 5,000 contexts", "`kubectl config get-contexts`", []string{"kubeconfig", "list"}, kubectl("config", "get-contexts")},
		{"`kubehsm kubeconfig set` and `remove`, 5,000 contexts: plan, difference, apply, twice", "`kubectl config set-context` and `delete-context`",
			nil, program{path: "/bin/sh", args: []string{"-c", `"$0" config set-context bench --kubeconfig "$1" --user u1 && "$0" config delete-context bench --kubeconfig "$1"`, s.lab.Cluster.Kubectl(), file}, env: env}},
	} {
		fmt.Fprintln(os.Stderr, r.what)
		ours := program{path: s.lab.Binary, args: append(r.ours, "--kubeconfig", file), env: env}
		if r.ours == nil {
			script := `"$0" kubeconfig set "$2" --keep-current --yes --kubeconfig "$1" && "$0" kubeconfig remove "$2" --yes --kubeconfig "$1"`
			ours = program{path: "/bin/sh", args: []string{"-c", script, s.lab.Binary, file, s.enrolled}, env: env}
		}
		p, err := measure(ctx, min(t.n, 15), ours, r.theirs)
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		t.add(row{r.what, r.against, p, "–"})
	}
	return nil
}
