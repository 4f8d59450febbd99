// Kubehsm keeps a person's Kubernetes key in a hardware token and lets stock
// kubectl sign in with it. See README.md; the code starts at ui/cli.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/cli"
	"github.com/kubehsm/kubehsm/ui/drivers"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/interrupt"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/worker"
)

func main() { os.Exit(run()) }

func run() int {
	if code, ok := worker.Work(os.Args[1:]); ok { // its environment is from a process of ours
		return code
	}
	executable, err := os.Executable()
	if err != nil {
		ui.Report(os.Stderr, fmt.Errorf("finding this program: %w", err))
		return ui.ExitFailed
	}
	if err := child.Quiet(executable); err != nil {
		ui.Report(os.Stderr, err)
		return ui.ExitFailed
	}
	ctx, signals, stop := interrupt.Context(context.Background())
	defer stop()
	program := &cli.Program{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Setenv: os.Setenv,
		Executable: executable, Version: ui.Version(),
		Drivers:   func(o cli.DriverOptions) hsm.Drivers { return drivers.New(drivers.Options(o)) },
		TUI:       terminalUI,
		Finishing: signals.Finishing,
	}
	return program.Run(ctx)
}

func terminalUI(ctx context.Context, o cli.TUIOptions) (*enrolling.Result, error) {
	start := tui.ScreenHome
	if o.Enroll {
		start = tui.ScreenEnroll
	}
	outcome, err := tui.Run(ctx, tui.Options{Env: o.Env, Start: start, Enroll: o.Options,
		ReadOnly: o.ReadOnly, Finishing: o.Env.Finishing})
	if err == nil && outcome.Interrupted && outcome.Result == nil {
		return nil, context.Canceled
	}
	return outcome.Result, err
}
