// Package drivers makes the drivers for all kinds of tokens. Only main and
// the program's parts as worker and signer use it: everybody else is given drivers.
package drivers

import (
	"path/filepath"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/settings"
)

// Options say what drivers are to work with.
type Options struct {
	Dirs home.Dirs
	// Modules are PKCS#11 libraries beside those that the system registers.
	Modules []settings.Module
	// OnlyModules leaves out all others, and smart cards.
	OnlyModules bool
	// Finishing is told while a token is changed; may be nil.
	Finishing hsm.Finishing
}

// New makes drivers, which load nothing before they are used.
func New(o Options) hsm.Drivers {
	modules := make([]pkcs11.Module, 0, len(o.Modules))
	for _, m := range o.Modules {
		modules = append(modules, pkcs11.Module{Name: m.Name, Path: m.Path, Env: m.Env, Reserved: m.InitReserved})
	}
	all := hsm.Drivers{pkcs11.New(pkcs11.Options{Modules: modules, Discover: !o.OnlyModules,
		LockDir: filepath.Join(o.Dirs.Run, "locks"), Finishing: o.Finishing})}
	if o.OnlyModules {
		return append(all, leftOut{hsm.SchemePIV, "smart cards", o.Dirs.ConfigFile()})
	}
	return append(all, piv.New(piv.Options{Finishing: o.Finishing}))
}
