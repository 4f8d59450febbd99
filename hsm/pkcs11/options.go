package pkcs11

import (
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
)

// Options configure [New].
type Options struct {
	// Modules are tried in order, before any that are discovered.
	Modules []Module
	// Discover adds the modules of p11-kit's configuration and of well-known places.
	Discover bool
	// LockDir is the folder of the lock files shared by all processes of the
	// user; it is made (0700) when needed. Empty: no locking, for programs that
	// are sure to be alone.
	LockDir string
	// Finishing is told while a token is changed; may be nil.
	Finishing hsm.Finishing
}

// Module names a PKCS#11 library.
type Module struct {
	// Name is p11-kit's name for it, if any. It answers to module-name in URIs.
	Name string
	// Path is absolute, or a bare file name in p11-kit's module folder.
	Path string
	// Env is put into this process's environment before the module is loaded:
	// many libraries find their configuration by it. It stays there.
	Env map[string]string
	// Reserved is given to C_Initialize as pReserved, which some libraries read their
	// settings from (p11-kit's x-init-reserved); "" is none.
	Reserved string

	real   string // identity of the module, see [p11kit.Real]; "" until it was looked up
	remote string // the address of a module that runs elsewhere, "" of a library
	client string // the library that reaches what is remote
}

// named tells whether a URI's module-name (RFC 7512 section 2.3) means m.
func (m Module) named(name string) bool {
	base := filepath.Base(m.Path)
	stem, _, _ := strings.Cut(base, ".")
	return name == m.Name || name == base || name == stem || "lib"+name == stem
}
