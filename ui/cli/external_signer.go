package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/credential"
	"github.com/kubehsm/kubehsm/ui/prompt"
	"github.com/kubehsm/kubehsm/ui/text"
)

// externalSigner answers a client with the auth provider externalSigner, which
// starts the program without arguments. The answer goes to standard output in
// one piece and nothing else.
func (a *app) externalSigner(ctx context.Context) error {
	request, err := externalsigner.Read(a.Args[1:], a.Getenv)
	if errors.Is(err, externalsigner.ErrRequest) {
		return &ui.UsageError{Err: err}
	}
	if err != nil {
		return err
	}
	defer request.Zero()
	dirs, err := a.dirs()
	if err != nil {
		return err
	}
	config, err := home.LoadConfig(dirs)
	if err != nil {
		return err
	}
	if err := config.SetEnv(a.Setenv); err != nil {
		return err
	}
	sources, err := pinsource.Entries(config)
	if err != nil {
		return err
	}
	known := func(path string) bool {
		drivers := a.Drivers(DriverOptions{Dirs: dirs, Modules: config.Modules, OnlyModules: config.OnlyModules})
		return slices.ContainsFunc(drivers, func(d hsm.Driver) bool {
			k, ok := d.(interface{ Knows(path string) bool })
			return ok && k.Knows(path)
		})
	}
	ctx = hsm.WithPurpose(ctx, hsm.Purpose{Action: "sign in", Command: credential.ParentCommand()})
	answer, err := externalsigner.Serve(ctx, request, externalsigner.Options{
		Drivers: func(module string) hsm.Drivers {
			modules := config.Modules
			if module != "" && !slices.ContainsFunc(modules, func(m home.Module) bool { return m.Path == module }) {
				modules = append(slices.Clone(modules), home.Module{Path: module})
			}
			return a.Drivers(DriverOptions{Dirs: dirs, Modules: modules, OnlyModules: config.OnlyModules})
		},
		Prompter: a.prompter(func(o *prompt.Options) {
			o.CoolDown, o.Hint = credential.CoolDown, "run the command in a terminal, or configure a pinentry"
		}),
		Modules:    externalsigner.Modules{Known: known, State: dirs.State},
		PINSources: sources,
		Warn: func(message string) {
			fmt.Fprintln(a.Stderr, "warning: "+text.Clean(message))
		},
	})
	if errors.Is(err, externalsigner.ErrRequest) {
		return &ui.UsageError{Err: err}
	}
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(answer)
	return err
}
