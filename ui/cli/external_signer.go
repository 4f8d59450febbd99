package cli

import (
	"crypto/x509"
	"errors"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/ui/signer"
)

func (a *app) signer() signer.Signer {
	return signer.Signer{
		Getenv: a.Getenv, Setenv: a.Setenv, Stdout: a.Stdout, Stderr: a.Stderr, Prompter: a.asker, Enrolled: enrolled,
		Executable: a.Executable,
		Drivers: func(dirs home.Dirs, modules []settings.Module, only bool) hsm.Drivers {
			return a.Drivers(DriverOptions{Dirs: dirs, Modules: modules, OnlyModules: only, Finishing: a.Finishing})
		},
	}
}

// enrolled returns the chain of the enrollment called name if its key is the one that u names, else
// nil.
func enrolled(dirs home.Dirs, name string, u hsm.URI) ([]*x509.Certificate, error) {
	store := enrollment.NewStore(dirs)
	e, err := store.Load(name)
	switch {
	case errors.Is(err, enrollment.ErrUnknown), errors.Is(err, enrollment.ErrInvalid):
		return nil, nil // the token has one, perhaps
	case err != nil:
		return nil, err
	case e.Key.Identity().String() != u.Identity().String():
		return nil, nil
	}
	return store.Certificate(e)
}
