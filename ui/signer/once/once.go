// Package once is the program as an external signer that a client starts for one
// signature. It may use the token's library in this process (package direct), and
// listens for ctrl-c only while somebody is asked.
package once

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/drivers"
	"github.com/kubehsm/kubehsm/ui/interrupt"
	"github.com/kubehsm/kubehsm/ui/signer"
	"github.com/kubehsm/kubehsm/ui/signer/direct"
)

// Sign makes the signature that the arguments, without the program's name, or the environment ask for, and
// returns the exit code. It is not ok if they ask for something else, such as the certificate.
func Sign(args []string) (code int, ok bool) {
	if !externalsigner.Requested(args, os.Getenv) {
		return 0, false
	}
	r, err := signer.Read(args, os.Getenv)
	if err == nil {
		if r.Operation != wire.Sign {
			r.Zero()
			return 0, false
		}
		err = answer(r)
	}
	ui.Report(os.Stderr, err)
	return ui.ExitCode(err), true
}

// use is [direct.Use] without the request in the environment, in which there may be a PIN: a
// library may start programs, as a worker's could not pass it on either.
func use(library string) bool {
	for _, name := range wire.EnvVars() {
		if os.Unsetenv(name) != nil {
			return false
		}
	}
	return direct.Use(library)
}

func answer(r externalsigner.Request) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// While a library works and nobody is asked, ctrl-c ends the program as any
	// other: to listen for it takes two threads. A card would be left as it is.
	listen := sync.OnceFunc(func() {
		interrupted, _, _ := interrupt.Context(ctx)
		context.AfterFunc(interrupted, cancel)
	})
	if u := r.Config.URI; u != nil && u.Kind().LoginStays {
		listen()
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	stdout, err := direct.Stdout()
	if err != nil {
		return err
	}
	s := signer.Signer{
		Getenv: os.Getenv, Setenv: os.Setenv, Stdout: stdout, Stderr: os.Stderr, Asking: listen,
		Executable: executable, Direct: use,
		Drivers: func(dirs home.Dirs, modules []settings.Module, only bool) hsm.Drivers {
			return drivers.New(drivers.Options{Dirs: dirs, Modules: modules, OnlyModules: only})
		},
	}
	return s.Answer(ctx, r)
}
