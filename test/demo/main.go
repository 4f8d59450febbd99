// Command demo is the trial behind `make demo`: a token in software, a real
// control plane on loopback, kubehsm enrolled from one into the other, and an
// unmodified kubectl signed in by the token's key.
//
//	go run ./test/demo up DIR     start the trial in DIR and do the main job
//	go run ./test/demo down DIR   stop what was started and remove DIR
//
// On a terminal it opens the terminal UI; without one it runs through
// unattended and fails if a step does. Everything lives in DIR: the token, the
// cluster, kubehsm's state, the kubeconfig, the programs. Only Go's build and
// module caches are shared with the machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo up DIR | demo down DIR")
		return 2
	}
	verbs := map[string]func(context.Context, *trial) error{
		"up":   up,
		"down": down,
	}
	do, ok := verbs[args[0]]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown verb %q: use up or down\n", args[0])
		return 2
	}
	t, err := newTrial(args[1])
	if err == nil {
		err = do(ctx, t)
	}
	return exitCode(ctx, err)
}

// exitCode says err and returns the code for it: a command's own, 130 after
// ctrl-c, else 1.
func exitCode(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr,
			"\ninterrupted: `make demo` goes on from here, `make demo-down` removes the trial")
		return 130
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	if hint := hinting.Of(err); hint != "" {
		fmt.Fprintln(os.Stderr, "hint:", hint)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
