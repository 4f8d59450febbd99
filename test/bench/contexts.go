//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const manyContexts = 300

// contexts measures a kubeconfig that is long: shown, and changed, beside
// kubectl's own commands.
func (b *bench) contexts(ctx context.Context) error {
	dir, err := os.MkdirTemp(b.lab.Dir, "contexts-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "config")
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: Config\nclusters:\n")
	for i := range manyContexts {
		fmt.Fprintf(&text, "- cluster:\n    server: https://c%d.example:6443\n  name: c%d\n", i, i)
	}
	text.WriteString("contexts:\n")
	for i := range manyContexts {
		fmt.Fprintf(&text, "- context:\n    cluster: c%d\n    user: u%d\n  name: x%d\n", i, i, i)
	}
	text.WriteString("current-context: x0\nusers:\n")
	for i := range manyContexts {
		fmt.Fprintf(&text, "- name: u%d\n  user:\n    token: t%d\n", i, i)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return err
	}
	env := b.lab.Env()
	kubectl := func(args ...string) program {
		return program{path: b.lab.Cluster.Kubectl(), args: append(args, "--kubeconfig", file), env: env}
	}
	for _, r := range []struct {
		what, against string
		ours          []string
		theirs        program
	}{
		{"`kubehsm kubeconfig list`, 300 contexts", "`kubectl config get-contexts`", []string{"kubeconfig", "list"},
			kubectl("config", "get-contexts")},
		{"`kubehsm kubeconfig set` and `remove`, 300 contexts: plan, difference, apply, twice",
			"`kubectl config set-context` and `delete-context`",
			nil, program{path: "/bin/sh", args: []string{"-c",
				`"$0" config set-context bench --kubeconfig "$1" --user u1 && "$0" config delete-context bench --kubeconfig "$1"`,
				b.lab.Cluster.Kubectl(), file}, env: env}},
	} {
		ours := program{path: b.lab.Binary, args: append(r.ours, "--kubeconfig", file), env: env}
		if r.ours == nil {
			script := `"$0" kubeconfig set "$2" --keep-current --yes --kubeconfig "$1" && "$0" kubeconfig remove "$2" --yes --kubeconfig "$1"`
			ours = program{path: "/bin/sh", args: []string{"-c", script, b.lab.Binary, file, b.enrolled}, env: env}
		}
		if err := b.compare(ctx, row{what: r.what, against: r.against}, min(b.n, 7), ours, r.theirs); err != nil {
			return err
		}
	}
	return nil
}
