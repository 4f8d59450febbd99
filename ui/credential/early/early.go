// Package early runs the credential plugin before the rest of the program is
// initialised. kubectl starts kubehsm for every command, and half of that start
// would be spent on setting up client-go and the terminal UI, which the plugin
// does not use. Go initialises packages in the order of their import paths as
// soon as what they import is ready (Go specification, "Program initialization"),
// so this one comes before k8s.io's as long as it imports none of them; a test
// holds it to that.
//
// It is the only package of ours that does work in init.
package early

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/credential"
)

func init() {
	if len(os.Args) < 2 || os.Args[1] != "credential" {
		return
	}
	args := os.Args[2:]
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return
	}
	err := run(args)
	ui.Report(os.Stderr, err)
	os.Exit(ui.ExitCode(err))
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second ctrl-c ends the program at once
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	c := credential.Command{Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr, Executable: executable, Version: ui.Version()}
	return c.Run(ctx, args)
}
