// Package signer is the program as an external signer, which clients with the
// auth provider externalSigner start (docs/kubectl.md).
package signer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/signing"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/caller"
	"github.com/kubehsm/kubehsm/ui/prompt"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/waiting"
)

// coolDown keeps a cancelled prompt from coming back when a client asks again at
// once.
const coolDown = 5 * time.Second

// unanswered is the next step where nobody can be asked.
const unanswered = "run `kubehsm unlock` first, if the key is enrolled; else run the command in a terminal, or " +
	"configure a pinentry"

// Signer is the program in this part.
type Signer struct {
	// Getenv and Setenv are the process's environment.
	Getenv func(string) string
	Setenv func(name, value string) error
	// Stdout receives the answer, Stderr words for the user.
	Stdout, Stderr io.Writer
	// Drivers makes drivers, which load nothing before they are used. They are used in
	// processes of their own, of the program at the absolute path Executable.
	Drivers    func(dirs home.Dirs, modules []settings.Module, onlyModules bool) hsm.Drivers
	Executable string
	// Enrolled finds the certificate of an enrollment and its chain, see [externalsigner.Options].
	Enrolled func(dirs home.Dirs, name string, u hsm.URI) ([]*x509.Certificate, error)
	// Prompter asks the user; nil asks on the terminal or as configured.
	Prompter hsm.Prompter
}

// Run answers the request that the program was started with; args are without its
// name. The answer goes to standard output in one piece and nothing else.
func (s Signer) Run(ctx context.Context, args []string) error {
	request, err := externalsigner.Read(args, s.Getenv)
	if err != nil {
		return worded(err)
	}
	defer request.Zero()
	o, done, err := s.options()
	if err != nil {
		return err
	}
	answer, err := externalsigner.Serve(worker.WithWaiting(ctx, waiting.Library(s.Stderr)), request, o)
	if cerr := done(); cerr != nil {
		err = errors.Join(err, cerr)
	}
	if err != nil {
		return worded(err)
	}
	_, err = s.Stdout.Write(answer)
	return err
}

// worded marks what is wrong with a request as a mistake of the one who wrote it.
func worded(err error) error {
	if errors.Is(err, externalsigner.ErrRequest) {
		return &ui.UsageError{Err: err}
	}
	return err
}

// options are what requests are answered with. The returned function lets go of what
// asking took.
func (s Signer) options() (o externalsigner.Options, done func() error, err error) {
	dirs, err := home.FromEnv(s.Getenv)
	if err != nil {
		return o, nil, err
	}
	config, err := settings.Load(dirs)
	if err != nil {
		return o, nil, err
	}
	if err := config.SetEnv(s.Setenv); err != nil {
		return o, nil, err
	}
	sources, err := pinsource.Entries(config)
	if err != nil {
		return o, nil, err
	}
	o = externalsigner.Options{
		Drivers: func(module string) hsm.Drivers {
			modules := config.Modules
			if module != "" && !slices.ContainsFunc(modules, func(m settings.Module) bool { return m.Path == module }) {
				modules = append(slices.Clone(modules), settings.Module{Path: module})
			}
			return worker.Apart(worker.Options{Exe: s.Executable, Patient: true},
				s.Drivers(dirs, modules, config.OnlyModules))
		},
		Modules: externalsigner.Modules{State: dirs.State, Known: func(path string) bool {
			return slices.ContainsFunc(s.Drivers(dirs, config.Modules, config.OnlyModules), func(d hsm.Driver) bool {
				k, ok := d.(interface{ Knows(path string) bool })
				return ok && k.Knows(path)
			})
		}},
		PINSources: sources,
		Warn:       func(message string) { fmt.Fprintln(s.Stderr, "warning: "+text.Clean(message)) },
	}
	if s.Enrolled != nil {
		o.Enrolled = func(name string, u hsm.URI) ([]*x509.Certificate, error) { return s.Enrolled(dirs, name, u) }
	}
	o.Prompter, done = s.prompter(dirs, config, sources)
	o.Remote = signing.Agent{Socket: dirs.Socket(), Prompter: o.Prompter, Command: caller.Command,
		Waiting: waiting.Shown(s.Stderr)}
	return o, done, nil
}

// prompter asks the user. What it needs is made when somebody is asked, as most
// runs ask nobody.
func (s Signer) prompter(dirs home.Dirs, config settings.Config, sources []pinsource.Entry) (hsm.Prompter,
	func() error) {
	if s.Prompter != nil {
		return s.Prompter, func() error { return nil }
	}
	var closers []func() error
	p := pinsource.Lazy(func() (*pinsource.Sources, ask.Func, error) {
		if err := dirs.Prepare(); err != nil {
			return nil, nil, err
		}
		p, forget := prompt.Choose(prompt.Options{PINFD: -1, Pinentry: config.Pinentry, RunDir: dirs.Run,
			CoolDown: coolDown, Terminal: process.Parent().Terminal(), Hint: unanswered})
		from := pinsource.New(pinsource.Options{Entries: sources, State: dirs.State, Getenv: s.Getenv, Descriptors: true,
			Waiting: waiting.Shown(s.Stderr)})
		closers = append(closers, from.Close, func() error { forget(); return nil })
		return from, ask.By(caller.Command())(p), nil
	})
	return p, func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
}
