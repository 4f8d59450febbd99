// Package env is what the use cases of kubehsm work with: folders, drivers and
// the options that hold for a whole run. It is plain data, with the few accessors
// that every use case needs. It knows no use case, asks nobody and opens nothing.
package env

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Env is what every use case works with. Main fills it once.
type Env struct {
	Dirs    home.Dirs
	Drivers hsm.Drivers
	// Executable is the absolute path of this program, from which the agent is started.
	Executable string
	// Kubeconfig is the file named by --kubeconfig; "" means kubectl's rules
	// ($KUBECONFIG, else ~/.kube/config).
	Kubeconfig string
	// Cluster is the kubeconfig cluster named by --cluster, which takes the place
	// of the one that a context names; "" leaves that.
	Cluster string
	// Version is this build's version.
	Version string
	// RequestTimeout bounds one request to an API server, watches included; 0
	// leaves it to package csr.
	RequestTimeout time.Duration
	// Prompter is asked when a context of kubehsm's own has to sign in; nil
	// means that nobody is asked, and no token waits for a touch.
	Prompter hsm.Prompter
	// Waiting, if not nil, shows why such a sign-in, or an unlock, waits; see
	// [client.Client].
	Waiting func(ctx context.Context, w ask.Wait) (done func())
	// Finishing is told while something goes on that must not be left half-way; may be nil.
	Finishing hsm.Finishing
}

// Plugin is the absolute path of the program that kubeconfig entries name: kubehsm-credential if it is in the
// folder of this program and would execute this program, or else this program. There is no kubehsm-credential
// for Windows.
func (e *Env) Plugin() string {
	named := e.Named()
	beside, err := exec.LookPath(filepath.Join(filepath.Dir(named), execcredential.Program))
	if err != nil {
		return named
	}
	file, err := filepath.EvalSymlinks(beside)
	if err != nil || !SameFile(e.Executable, filepath.Join(filepath.Dir(file), "kubehsm")) {
		return named
	}
	return beside
}

// Named is the absolute path by which kubeconfig entries and service managers name this program. Where its folder is
// not on the PATH, that is a link there if one leads to it, as krew and Homebrew make them: the folder of one version
// goes with the version.
func (e *Env) Named() string {
	if slices.Contains(filepath.SplitList(os.Getenv("PATH")), filepath.Dir(e.Executable)) {
		return e.Executable
	}
	for _, name := range []string{"kubehsm", "kubectl-hsm"} {
		if path, err := exec.LookPath(name); err == nil && SameFile(path, e.Executable) {
			return path
		}
	}
	return e.Executable
}

// SameFile tells whether both paths lead to one file.
func SameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Quiet is the environment of a look, which asks nobody.
func (e *Env) Quiet() *Env {
	quiet := *e
	quiet.Prompter = nil
	return &quiet
}

// WaitingOf is Waiting for one operation, nil if nothing shows it.
func (e *Env) WaitingOf(ctx context.Context) func(ask.Wait) (done func()) {
	if e.Waiting == nil {
		return nil
	}
	return func(w ask.Wait) (done func()) { return e.Waiting(ctx, w) }
}

// Enrollments is the store of the enrollments.
func (e *Env) Enrollments() enrollment.Store { return enrollment.NewStore(e.Dirs) }

// Bridge is the endpoint of the bridge, which is made if there is none yet.
func (e *Env) Bridge() (loopback.Endpoint, error) { return loopback.Setup(e.Dirs) }

// Rules say which kubeconfig files are read and written.
func (e *Env) Rules() kubeconfig.Rules {
	r := kubeconfig.DefaultRules(e.Kubeconfig)
	r.Cluster = e.Cluster
	return r
}

// On is e for a cluster of the kubeconfig in place of the contexts' own.
func (e *Env) On(cluster string) *Env {
	other := *e
	other.Cluster = cluster
	return &other
}

// ProgressDir is the folder of the records of enrollments under way.
func (e *Env) ProgressDir() string { return enrollment.Begun(e.Dirs) }

// Lock is [enrollment.Renewals.Lock] in folders that are made if they are missing.
func (e *Env) Lock(ctx context.Context, name string) (release func(), err error) {
	if err := e.Dirs.Prepare(); err != nil {
		return nil, err
	}
	release, err = e.Enrollments().Renewals().Lock(ctx, name)
	return release, e.Unwritable(err)
}

// Unwritable says what to do where the state folder takes nothing; any other err
// is as it was.
func (e *Env) Unwritable(err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return hint.Withf(err, "make %s writable, or name another folder with %s", e.Dirs.State, home.EnvHome)
	}
	return err
}
