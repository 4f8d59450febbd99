//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

const execInfo = `KUBERNETES_EXEC_INFO={"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}`

// start measures what every command of kubectl waits for.
func (b *bench) start(ctx context.Context) error {
	if err := b.lab.Unlock(ctx); err != nil {
		return err
	}
	env := b.lab.Env()
	hello := program{path: b.hello, env: env}
	plain := program{path: b.plain, env: env}
	version := program{path: b.lab.Binary, args: []string{"version"}, env: env}
	args := []string{"credential", "--enrollment", b.enrolled}
	small := program{path: b.lab.Plugin, args: args, env: append(env, execInfo)}
	whole, silent := small, small
	whole.path = b.lab.Binary
	silent.env = env
	for _, r := range []struct {
		what, against string
		ours, theirs  program
		bar           float64
		n             int
	}{
		{"`kubehsm-credential`, agent warm", "static hello-world", small, plain, 1.2, kubectlPairs},
		{"`kubehsm version`", "cgo hello-world", version, hello, 3, b.n},
		{"`kubehsm credential`, agent warm", "cgo hello-world", whole, hello, 0, b.n},
		{"`kubehsm-credential`, agent warm, for a client that sends no request", "static hello-world", silent, plain, 1.2, b.n},
	} {
		if err := b.compare(ctx, row{what: r.what, against: r.against, bar: r.bar}, r.n, r.ours, r.theirs); err != nil {
			return err
		}
	}
	return nil
}

// kubectlPairs are as many as it takes to tell some hundredths apart.
const kubectlPairs = 400

// kubectl measures a whole command.
func (b *bench) kubectl(ctx context.Context) error {
	if err := b.lab.Unlock(ctx); err != nil {
		return err
	}
	pairs := max(b.n, kubectlPairs)
	return b.compare(ctx, row{what: fmt.Sprintf("`kubectl get namespaces` with the token, agent warm, %d pairs", pairs),
		against: "the same with a key file", bar: 1.03}, pairs,
		b.get(b.lab.Kubeconfig, b.enrolled), b.get(b.keyFile, controlplane.ContextName))
}

// get is kubectl's command.
func (b *bench) get(kubeconfig, context string) program {
	return program{path: b.lab.Cluster.Kubectl(),
		args: []string{"--kubeconfig", kubeconfig, "--context", context, "get", "namespaces"}, env: b.lab.Env()}
}
