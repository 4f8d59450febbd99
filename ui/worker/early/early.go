// Package early is the worker process (package plugin/worker), before the rest of the
// program is initialized: by the rule of package ui/credential/early, and because a
// command starts a worker for each library, and the agent keeps one for each token.
// What a worker does not need takes neither time nor memory there.
package early

import (
	"context"
	"os"

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/drivers"
	"github.com/kubehsm/kubehsm/ui/interrupt"
)

func init() {
	if len(os.Args) != 3 || os.Args[1] != "agent" || os.Args[2] != "worker" {
		return
	}
	err := work()
	ui.Report(os.Stderr, err)
	os.Exit(ui.ExitCode(err))
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
	config, err := home.LoadConfig(dirs)
	if err != nil {
		return err
	}
	if err := config.SetEnv(os.Setenv); err != nil {
		return err
	}
	host := worker.NewHost()
	all := drivers.New(drivers.Options{Dirs: dirs, Modules: config.Modules, OnlyModules: config.OnlyModules,
		Busy: host.Busy, Finishing: host.Finishing})
	return host.Serve(ctx, all, control)
}
