// Package early makes signatures as an external signer before the rest of the
// program is initialised, for the same reason and by the same rule as package
// ui/credential/early: a client starts it for each. For the certificate, which a
// client asks for once, more is needed; main answers that.
package early

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/drivers"
	"github.com/kubehsm/kubehsm/ui/signer"
)

func init() {
	args := os.Args[1:]
	if !externalsigner.Requested(args, os.Getenv) {
		return
	}
	if r, err := externalsigner.Read(args, os.Getenv); err == nil {
		r.Zero()
		if r.Operation != wire.Sign {
			return
		}
	}
	err := run(args)
	ui.Report(os.Stderr, err)
	os.Exit(ui.ExitCode(err))
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second ctrl-c ends the program at once
	s := signer.Signer{
		Getenv: os.Getenv, Setenv: os.Setenv, Stdout: os.Stdout, Stderr: os.Stderr,
		Drivers: func(dirs home.Dirs, modules []home.Module, only bool) hsm.Drivers {
			return drivers.New(drivers.Options{Dirs: dirs, Modules: modules, OnlyModules: only})
		},
	}
	return s.Run(ctx, args)
}
