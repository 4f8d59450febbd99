package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Program is what the command line needs from main.
type Program struct {
	// Args are the program's name and arguments, as [os.Args].
	Args []string
	// Stdin, Stdout and Stderr are the standard streams.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv and Setenv are the process's environment.
	Getenv func(string) string
	Setenv func(name, value string) error
	// Executable is the absolute path of this program.
	Executable string
	// Version is this build's version.
	Version string
	// Drivers makes drivers, which load nothing before they are used.
	Drivers func(DriverOptions) hsm.Drivers
	// TUI runs the terminal UI, and returns the last enrollment finished there, nil if
	// none was. Its error wraps [hsm.ErrNoTerminal], before anything is drawn, if there is
	// no terminal for it, and has a method Plain that tells true if there is one for plain
	// lines.
	TUI func(context.Context, TUIOptions) (*enrolling.Result, error)

	// Finishing is told while something goes on that must not be left half-way; may be nil.
	Finishing hsm.Finishing

	asker hsm.Prompter // set by tests: they must not ask on the developer's terminal
}

// DriverOptions say what drivers are to work with.
type DriverOptions struct {
	Dirs home.Dirs
	// Modules are the PKCS#11 libraries of the user's configuration and of --module.
	Modules []settings.Module
	// OnlyModules leaves out all others, and smart cards.
	OnlyModules bool
	// Finishing is the program's.
	Finishing hsm.Finishing
}

// TUIOptions say what the terminal UI starts with.
type TUIOptions struct {
	Env *env.Env
	// Enroll opens it at the enrollment, filled with Options.
	Enroll  bool
	Options enrolling.Options
	// ReadOnly refuses whatever would change something.
	ReadOnly bool
}

// Run runs the command that the arguments name, reports its error and returns
// the exit code (see package ui).
func (p *Program) Run(ctx context.Context) int {
	// client-go logs answers that break off to stderr, where the terminal UI is drawn.
	klog.SetLogger(logr.Discard())
	a := &app{Program: p, pinFD: -1, asker: p.asker}
	err := a.run(ctx, a.Args[1:])
	err = errors.Join(err, a.close())
	if j, ok := err.(interface{ Unwrap() []error }); ok && len(j.Unwrap()) == 1 {
		err = j.Unwrap()[0]
	}
	ui.Report(p.Stderr, err)
	return ui.ExitCode(err)
}

func (a *app) run(ctx context.Context, args []string) error {
	if externalsigner.Requested(args, a.Getenv) {
		return a.signer().Run(ctx, args)
	}
	return a.execute(ctx, args)
}

func (p *Program) name() string {
	base := strings.TrimSuffix(filepath.Base(p.Args[0]), ".exe")
	if base == "kubectl-hsm" {
		return "kubectl hsm"
	}
	return "kubehsm"
}
