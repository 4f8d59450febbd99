// Package credential is the command that kubectl runs for every command of its
// own: the exec credential plugin (KEP-541), unless kubehsm-credential finds that
// the agent has the answer at hand.
package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/renewing"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/entry"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/caller"
	"github.com/kubehsm/kubehsm/ui/prompt"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/waiting"
)

// CoolDown keeps a cancelled prompt from coming back when a client starts the
// plugin again at once.
const CoolDown = 5 * time.Second

// EnrollmentUsage describes the --enrollment flag.
const EnrollmentUsage = "`enrollment` that the kubeconfig entry names"

// Command is one run of the plugin.
type Command struct {
	// Getenv reads the process's environment.
	Getenv func(string) string
	// Stdout takes the ExecCredential, in one piece and nothing else; Stderr
	// takes the words to the person.
	Stdout, Stderr io.Writer
	// Executable is the absolute path of this program, Version its version: the
	// agent is started from it.
	Executable, Version string
	// APIVersion is the version to answer in where the client does not say which;
	// see [execcredential.Assume].
	APIVersion string
	// Prompter is asked instead of the person; nil outside tests.
	Prompter hsm.Prompter
}

// Answer writes the credential for the enrollment called name, or for the one
// that kubectl's request names if name is empty. Errors are usage errors of
// package ui, those of [execcredential.Read], and those of [client.Client.Prepare].
func (c *Command) Answer(ctx context.Context, name string) (err error) {
	request, err := c.request(name)
	if err != nil {
		return err
	}
	name, err = entry.Name(name, request)
	if errors.Is(err, entry.ErrUnnamed) {
		return &ui.UsageError{Err: err, Help: "kubehsm credential --help"}
	}
	if err != nil {
		return err
	}
	dirs, err := home.FromEnv(c.Getenv)
	if err != nil {
		return err
	}
	known, err := enrollment.NewStore(dirs).Load(name)
	if err != nil {
		return err
	}
	if err := entry.Check(known, request); err != nil {
		return err
	}
	asker, done := c.prompter(dirs)
	defer done()
	ctx, asker, stop := whileWanted(ctx, c.Stdout, asker)
	defer func() {
		if errors.Is(err, ask.ErrGone) || errors.Is(context.Cause(ctx), ask.ErrGone) {
			err = nil // nobody is there to be told
		}
		stop(nil)
	}()
	a, err := EnsureAgent(ctx, dirs, c.Executable, c.Version, c.Stderr)
	if err != nil {
		return err
	}
	defer a.Close()
	prepare := client.PrepareRequest{
		Enrollment: name,
		Purpose:    hsm.Purpose{Cluster: name, Action: "sign in", Command: caller.Command()},
	}
	if request.Cluster != nil {
		prepare.Authorities = request.Cluster.CAData
	}
	session, err := a.Prepare(ctx, prepare, asker)
	if err != nil {
		return err
	}
	defer clear(session.Key)
	if session.Attend {
		// Without one, requests that need a yes are refused in words: signing in
		// does not depend on it.
		if err := c.startAttendant(process.Parent()); err != nil {
			// who does not read it learns it from the refusal
			_, _ = io.WriteString(c.Stderr, "warning: "+text.Clean(err.Error())+"\n")
		}
	}
	c.warnOfExpiry(dirs, known)
	return execcredential.Write(c.Stdout, request.APIVersion, execcredential.Response{
		CertificatePEM: session.Certificate, KeyPEM: session.Key, Expiration: session.Expires,
	})
}

// request is what the client says in its environment. Some clients say nothing
// there (JavaScript's and Ruby's among them): the arguments are all they hand
// over. What a person starts on a terminal is no request.
func (c *Command) request(name string) (execcredential.Request, error) {
	said := c.Getenv(execcredential.EnvVar)
	f, ok := c.Stdout.(*os.File)
	if said != "" || name == "" || ok && term.IsTerminal(int(f.Fd())) {
		return execcredential.Read(said)
	}
	r, err := execcredential.Assume(c.APIVersion)
	if err != nil {
		err = &ui.UsageError{Err: fmt.Errorf("--api-version: %w", err), Help: "kubehsm credential --help"}
	}
	return r, err
}

// EnsureAgent finds or starts the agent, this program's own if possible. That
// an unlocked one was replaced is said on stderr. If no person reads that, an
// unlocked agent goes on: nobody could be asked for the PIN either. The client says
// why it waits.
func EnsureAgent(ctx context.Context, dirs home.Dirs, executable, version string, stderr io.Writer) (*client.Client,
	error) {
	p := client.Program{Path: executable, Version: version}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.Say = func(s string) {
			_, _ = io.WriteString(f, text.Clean(s)+"\n") // a terminal that has gone has no reader
		}
	}
	a, err := client.EnsureProgram(ctx, dirs, p)
	if err == nil {
		a.Waiting = waiting.Shown(stderr)
	}
	return a, err
}

// prompter asks the person; what it needs is read when it comes to that.
func (c *Command) prompter(dirs home.Dirs) (hsm.Prompter, func()) {
	if c.Prompter != nil {
		return c.Prompter, func() {}
	}
	release := func() {}
	lazy := pinsource.Lazy(func() (*pinsource.Sources, ask.Func, error) {
		if err := dirs.Prepare(); err != nil {
			return nil, nil, err
		}
		config, err := settings.Load(dirs)
		if err != nil {
			return nil, nil, err
		}
		sources, err := pinsource.Entries(config)
		if err != nil {
			return nil, nil, err
		}
		p, done := prompt.Choose(prompt.Options{PINFD: -1, Pinentry: config.Pinentry, RunDir: dirs.Run,
			CoolDown: CoolDown, Terminal: process.This().Terminal(), Notify: desktop.New(c.Getenv).Say})
		s := pinsource.New(pinsource.Options{Entries: sources, State: dirs.State, Getenv: c.Getenv, Descriptors: true,
			Waiting: waiting.Shown(c.Stderr)})
		release = func() {
			_ = s.Close() // only forgets
			done()
		}
		return s, p, nil
	})
	return lazy, func() { release() }
}

// warnOfExpiry says once a day that the certificate of the enrollment or of a spare ends
// soon. Nothing depends on it.
func (c *Command) warnOfExpiry(dirs home.Dirs, e enrollment.Enrollment) {
	store := enrollment.NewStore(dirs)
	spares, _ := store.Spares(e.Name) // `kubehsm doctor` tells of a record that cannot be read
	for _, e := range append([]enrollment.Enrollment{e}, spares...) {
		chain, err := store.Certificate(e)
		if err != nil {
			continue // the certificate is being replaced, or the agent tells of it when it chooses the key
		}
		now := time.Now()
		due, failure := renewing.Due(store, e, chain[0], now, renewing.Off(dirs))
		if due && expiry.OnceADay(expiry.Dir(dirs.State), e.Name, chain[0].NotAfter, now) {
			warning := renewing.Warning(e, chain[0].NotAfter, now, failure)
			_, _ = io.WriteString(c.Stderr, "warning: "+text.Clean(warning)+"\n") // the warning comes again tomorrow
		}
	}
}
