// Command demo is the trial behind `make demo`: a token in software, a real
// control plane on loopback, kubehsm enrolled from one into the other, and an
// unmodified kubectl signed in by the token's key.
//
//	go run ./test/demo up DIR [CONTEXT]   start the trial in DIR and do the main job
//	go run ./test/demo fleet DIR          show twenty people join with virtual cards
//	go run ./test/demo down DIR           stop what was started and remove DIR
//
// With a context of the user's kubeconfig, the trial uses that cluster: it makes a
// namespace there, and a cluster role with its binding, and removes them at the end.
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
	"strings"
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
	if len(args) != 2 && (len(args) != 3 || args[0] != "up") {
		fmt.Fprintln(os.Stderr, "usage: demo up DIR [CONTEXT] | demo fleet DIR | demo down DIR")
		return 2
	}
	verbs := map[string]func(context.Context, *trial) error{
		"up":      func(ctx context.Context, t *trial) error { return up(ctx, t, strings.Join(args[2:], "")) },
		"fleet":   upFleet,
		"down":    down,
		"cluster": background, // started by up
		"show":    show,       // started by fleet
	}
	do, ok := verbs[args[0]]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown verb %q: use up, fleet or down\n", args[0])
		return 2
	}
	t, err := newTrial(args[1])
	if err == nil {
		err = do(ctx, t)
	}
	return exitCode(ctx, err)
}

// errSaid is an error of the show of many people, which has ended and said it.
var errSaid = errors.New("the show")

// exitCode says err and returns the code for it: a command's own, 130 after
// ctrl-c, else 1.
func exitCode(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	switch said := errors.Is(err, errSaid); {
	case ctx.Err() != nil && said:
		fmt.Fprintln(os.Stderr, "\ninterrupted; everything has ended, and `make demo-down` removes it")
		return 130
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr,
			"\ninterrupted; what runs in the background goes on: `make demo` takes it up again, `make demo-down` ends it")
		return 130
	case !said:
		fmt.Fprintln(os.Stderr, "error:", err)
		if hint := hinting.Of(err); hint != "" {
			fmt.Fprintln(os.Stderr, "hint:", hint)
		}
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
