package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/prompt"
	"github.com/kubehsm/kubehsm/ui/waiting"
)

// app is one run of the program: the global flags and what the commands share, made when first
// needed.
type app struct {
	*Program

	kubeconfig     string
	context        string
	cluster        string
	requestTimeout string
	module         string
	pinFD          int
	descriptors    []*descriptor // beside pinFD

	// holds is set in the agent, which has workers of its own.
	holds bool

	started bool // a command's own work has begun: later errors are not about usage
	asker   hsm.Prompter
	environ *env.Env
	config  settings.Config   // read by env
	sources []pinsource.Entry // the configuration's, as read by env
	closers []func() error
}

// close closes in reverse order of opening.
func (a *app) close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	a.closers = nil
	return errors.Join(errs...)
}

func (a *app) dirs() (home.Dirs, error) { return home.FromEnv(a.Getenv) }

// env reads the user's configuration and sets the environment variables that its modules need,
// before any is loaded.
func (a *app) env() (*env.Env, error) {
	if a.environ != nil {
		return a.environ, nil
	}
	dirs, err := a.dirs()
	if err != nil {
		return nil, err
	}
	config, err := settings.Load(dirs)
	if err != nil {
		return nil, err
	}
	if err := config.SetEnv(a.Setenv); err != nil {
		return nil, err
	}
	if a.sources, err = pinsource.Entries(config); err != nil {
		return nil, err
	}
	timeout, err := requestTimeout(a.requestTimeout)
	if err != nil {
		return nil, err
	}
	modules := config.Modules
	if a.module != "" {
		path, err := filepath.Abs(a.module)
		if err != nil {
			return nil, fmt.Errorf("--module: %w", err)
		}
		modules = append([]settings.Module{{Path: path}}, modules...)
	}
	options := DriverOptions{Dirs: dirs, Modules: modules, OnlyModules: config.OnlyModules,
		Finishing: a.Finishing}
	drivers := a.Drivers(options)
	if !a.holds {
		drivers = worker.Apart(worker.Options{Exe: a.Executable, Patient: true, Finishing: a.Finishing}, drivers)
	}
	a.closers = append(a.closers, drivers.Close)
	a.config = config
	waits := waiting.Shown(a.Stderr)
	a.environ = &env.Env{
		Dirs: dirs, Drivers: drivers, Executable: a.Executable,
		Finishing: a.Finishing, Kubeconfig: a.kubeconfig, Cluster: a.cluster, Version: a.Version, RequestTimeout: timeout,
		Prompter: a.prompter(), Waiting: func(_ context.Context, w ask.Wait) func() { return waits(w) },
	}
	return a.environ, nil
}

// requestTimeout reads kubectl's flag: a duration, or a number of seconds.
func requestTimeout(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if n, nerr := strconv.ParseUint(s, 10, 31); nerr == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, ui.Usagef("--request-timeout: %q is neither a duration such as 30s nor a number of seconds", s)
	}
	return d, nil
}

// prompter opens nothing before it asks: most runs ask nobody.
func (a *app) prompter(options ...func(*prompt.Options)) hsm.Prompter {
	if a.asker == nil {
		a.asker = pinsource.Lazy(func() (*pinsource.Sources, ask.Func, error) {
			dirs, err := a.dirs()
			if err != nil {
				return nil, nil, err
			}
			if err := dirs.Prepare(); err != nil {
				return nil, nil, err
			}
			config, err := settings.Load(dirs)
			if err != nil {
				return nil, nil, err
			}
			o := prompt.Options{PINFD: a.pinFD, Pinentry: config.Pinentry, RunDir: dirs.Run, Hint: askHint}
			for _, f := range options {
				f(&o)
			}
			p, forget := prompt.Choose(o)
			a.atEnd(forget)
			for _, d := range a.descriptors {
				if d.fd >= 0 {
					p, forget = prompt.SecretFD("--"+d.flag, d.fd, d.serves, p)
					a.atEnd(forget)
				}
			}
			sources := a.sources
			switch {
			case a.pinFD >= 0: // the PIN was given for this very run
				sources = nil
			case a.environ == nil: // drivers are not there yet
				if sources, err = pinsource.Entries(config); err != nil {
					return nil, nil, err
				}
			}
			s := pinsource.New(pinsource.Options{Entries: sources, State: dirs.State, Getenv: a.Getenv, Descriptors: true,
				Waiting: waiting.Shown(a.Stderr)})
			a.closers = append(a.closers, s.Close)
			return s, p, nil
		})
	}
	return a.asker
}

func (a *app) atEnd(f func()) {
	a.closers = append(a.closers, func() error { f(); return nil })
}

const askHint = "run it in a terminal, or give it the PIN with --pin-fd"

// sourcesListed refuses token URIs with a pin-source that the configuration does not list: a URI
// may have been copied from anywhere.
func (a *app) sourcesListed(flags *pflag.FlagSet) error {
	for _, name := range []string{"token", "key"} {
		f := flags.Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		u, err := hsm.ParseURI(f.Value.String())
		if err != nil || u.PINSource == "" { // the command itself says what is wrong
			continue
		}
		if _, err := a.env(); err != nil {
			return err
		}
		if err := pinsource.Listed(a.sources, u); err != nil {
			return err
		}
	}
	return nil
}

// confirm returns [hsm.ErrCancelled] for a no.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	return a.confirmed(ctx, yes, hsm.ConfirmPrompt{Question: question})
}

func (a *app) confirmed(ctx context.Context, yes bool, p hsm.ConfirmPrompt) error {
	if yes {
		return nil
	}
	ok, err := a.prompter().Confirm(ctx, p)
	if errors.Is(err, hsm.ErrNoTerminal) {
		return hint.With(err, "run it in a terminal, or with --yes once you have seen what it would do")
	}
	if err == nil && !ok {
		err = fmt.Errorf("%w: nothing was changed", hsm.ErrCancelled)
	}
	return err
}

// offer asks about an optional step. Without a person the answer is no.
func (a *app) offer(ctx context.Context, yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	ok, err := a.prompter().Confirm(ctx, hsm.ConfirmPrompt{Question: question})
	if errors.Is(err, hsm.ErrNoTerminal) || errors.Is(err, hsm.ErrCancelled) {
		return false, nil
	}
	return ok, err
}

// enrollment returns the enrollment called name, or the only one meant without a name.
func (a *app) enrollment(ctx context.Context, name string) (enrollment.Enrollment, error) {
	env, err := a.env()
	if err != nil {
		return enrollment.Enrollment{}, err
	}
	e, err := contexts.Meant(ctx, env, name, a.context)
	if errors.Is(err, contexts.ErrSeveral) {
		err = &ui.UsageError{Err: err}
	}
	return e, err
}

func (a *app) enrolled(ctx context.Context, args []string) (*env.Env, enrollment.Enrollment, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	e, err := a.enrollment(ctx, name)
	return a.environ, e, err // which [app.enrollment] has made
}

// token reads a token's URI from a flag; "" is the only token present.
func (a *app) token(ctx context.Context, uri string) (hsm.URI, error) {
	if uri != "" {
		return hsm.ParseURI(uri)
	}
	tokens, err := a.tokens()
	if err != nil {
		return hsm.URI{}, err
	}
	return tokens.Only(ctx)
}

func (a *app) tokens() (token.Tokens, error) {
	env, err := a.env()
	if err != nil {
		return token.Tokens{}, err
	}
	return token.Tokens{Env: env}, nil
}

func (a *app) oneToken(ctx context.Context, uri string) (token.Tokens, hsm.URI, error) {
	tokens, err := a.tokens()
	if err != nil {
		return tokens, hsm.URI{}, err
	}
	u, err := a.token(ctx, uri)
	return tokens, u, err
}

func (a *app) keys() (token.Keys, error) {
	env, err := a.env()
	if err != nil {
		return token.Keys{}, err
	}
	return token.Keys{Env: env}, nil
}

func (a *app) oneKey(uri string) (token.Keys, hsm.URI, error) {
	u, err := parseKey(uri)
	if err != nil {
		return token.Keys{}, u, err
	}
	keys, err := a.keys()
	return keys, u, err
}

// readAll reads a file, or standard input for "-". No certificate is larger than its limit.
func (a *app) readAll(path string) ([]byte, error) {
	const most = 1 << 20
	r := a.Stdin
	if path != "-" {
		f, err := openFile(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return b, err
}
