// Package worker is the program as a worker process (package plugin/worker): a command
// starts one for each library, and the agent keeps one for each token.
package worker

import (
	"context"
	"os"

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/drivers"
	"github.com/kubehsm/kubehsm/ui/interrupt"
)

// Work does a worker's work until the process that started it lets it go, and returns the exit code. It is
// not ok if the arguments, without the program's name, ask for something else.
func Work(args []string) (code int, ok bool) {
	if len(args) != 2 || args[0] != "agent" || args[1] != "worker" {
		return 0, false
	}
	err := work()
	ui.Report(os.Stderr, err)
	return ui.ExitCode(err), true
}

// work reaches tokens for the process that started this one.
func work() error {
	control, err := child.Control()
	if err != nil {
		return err
	}
	ctx, signals, stop := interrupt.Context(context.Background())
	defer stop()
	defer signals.Finishing()() // the worker's end has its own time limits
	dirs, err := home.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	config, err := settings.Load(dirs)
	if err != nil {
		return err
	}
	if err := config.SetEnv(os.Setenv); err != nil {
		return err
	}
	host := worker.NewHost()
	all := drivers.New(drivers.Options{Dirs: dirs, Modules: config.Modules, OnlyModules: config.OnlyModules,
		Finishing: host.Finishing})
	return host.Serve(ctx, all, control)
}
