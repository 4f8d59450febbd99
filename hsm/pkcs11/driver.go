//go:build cgo

package pkcs11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/pkcs11/p11kit"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Driver reaches the tokens of PKCS#11 modules. Make one with [New]. It is safe
// for concurrent use.
type Driver struct {
	options Options
	pause   time.Duration // see restart

	mu      sync.Mutex
	modules map[string]*module // by real path
	devices map[identity]*device
	closed  bool
}

var (
	_ hsm.Driver      = (*Driver)(nil)
	_ hsm.Initializer = (*Driver)(nil)
)

// New returns a driver. No module is loaded before it is needed.
func New(o Options) *Driver {
	return &Driver{options: o, pause: restartPause, modules: map[string]*module{}, devices: map[identity]*device{}}
}

// Scheme implements [hsm.Driver].
func (d *Driver) Scheme() string { return hsm.SchemePKCS11 }

// List implements [hsm.Driver]. A module that cannot be loaded is a Problem.
func (d *Driver) List(ctx context.Context) (hsm.Listing, error) {
	var l hsm.Listing
	candidates, problems := d.candidates(hsm.URI{})
	l.Problems = problems
	for _, c := range candidates {
		_, tokens, problems, err := d.tokens(ctx, c)
		if ctx.Err() != nil || errors.Is(err, errClosed) {
			return l, errors.Join(ctx.Err(), err)
		}
		if err != nil {
			problems = append(problems, hsm.Problem{Source: c.Path, Err: err})
		}
		l.Tokens = append(l.Tokens, tokens...)
		l.Problems = append(l.Problems, problems...)
	}
	return l, nil
}

// tokens lists those of one module. If the module has none that is set up, one may have
// been set up since it was loaded, and a server that was lost may be back: it is asked again.
func (d *Driver) tokens(ctx context.Context, c Module) (*module, []hsm.TokenInfo, []hsm.Problem, error) {
	m, err := d.module(ctx, c)
	if err != nil {
		return nil, nil, nil, err
	}
	tokens, problems, err := m.tokens(ctx)
	usable := slices.ContainsFunc(tokens, func(t hsm.TokenInfo) bool { return t.Initialized })
	lost := err != nil && m.about.Server != "" // a client goes to its server when it is set up
	if (err == nil && !usable || lost) && d.restart(ctx, m) {
		tokens, problems, err = m.tokens(ctx)
	}
	return m, tokens, problems, err
}

// restartPause is how long a library is left alone after it was set up.
const restartPause = 5 * time.Second

// restart finalises a library and sets it up again: some see only the tokens
// that were there when they were set up. It does nothing, and returns false,
// while anybody has a session or is in a call, soon after the last time, and
// where another part of the program set the library up.
func (d *Driver) restart(ctx context.Context, m *module) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || !m.owned.Load() || time.Since(m.since) < d.pause {
		return false
	}
	var held []gate
	defer func() {
		for _, g := range held {
			g.leave()
		}
	}()
	for _, dev := range d.devices {
		if dev.module != m {
			continue
		}
		if !slices.Contains(held, dev.gate) {
			if !dev.gate.try() {
				return false
			}
			held = append(held, dev.gate)
		}
		if dev.open && dev.severed() {
			dev.drop()
		}
		if dev.open {
			return false
		}
	}
	if !m.calls.TryLock() {
		return false
	}
	defer m.calls.Unlock()
	m.since = time.Now()
	if err := m.close(); err != nil {
		return false // the library stays loaded
	}
	return m.initialize(ctx) == nil // else the next call says what is wrong
}

// module returns a loaded module, loading it the first time.
func (d *Driver) module(ctx context.Context, c Module) (*module, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	if m := d.modules[c.real]; m != nil {
		return m, nil
	}
	m, err := load(ctx, c, d.options)
	if m != nil && err != nil {
		err = errors.Join(err, m.close())
	}
	if err != nil {
		return nil, err
	}
	d.modules[m.real] = m
	return m, nil
}

// candidates lists the modules that may hold what u names, each once, with their
// identities: those of this machine first.
func (d *Driver) candidates(u hsm.URI) ([]Module, []hsm.Problem) {
	where := sync.OnceValue(p11kit.Standard)
	all, seen, proxied := d.own(where)
	var problems []hsm.Problem
	if u.ModulePath != "" { // only the library that the URI names
		real := p11kit.Real(u.ModulePath)
		for _, m := range all {
			if m.real == real {
				return []Module{m}, nil
			}
		}
		if d.options.Discover && !proxied {
			if m, ok := where().Find(u.ModulePath); ok {
				return []Module{discovered(m, where)}, nil
			}
		}
		return []Module{{Path: u.ModulePath, real: real}}, nil
	}
	if d.options.Discover && !proxied {
		var found []p11kit.Module
		found, problems = where().Discover()
		for _, m := range found {
			if !seen[m.Real] {
				seen[m.Real] = true
				all = append(all, discovered(m, where))
			}
		}
	}
	if u.ModuleName != "" {
		named := all[:0:0]
		for _, m := range all {
			if m.named(u.ModuleName) {
				named = append(named, m)
			}
		}
		all = named
	}
	slices.SortStableFunc(all, func(a, b Module) int { return a.turn() - b.turn() })
	return all, problems
}

// turn orders modules: a token of this machine goes before one that a server, which may
// belong to somebody else, says is the same.
func (m Module) turn() int {
	if m.address() != "" {
		return 1
	}
	return 0
}

// discovered is a module that was found.
func discovered(m p11kit.Module, where func() p11kit.Places) Module {
	out := Module{Name: m.Name, Path: m.Path, Reserved: m.Reserved, real: m.Real, remote: m.Remote}
	if m.Remote != "" {
		out.client = where().Client()
	}
	return out
}

// own lists the modules of the options, each once, and their identities. proxied
// tells that one of them shows the modules of p11-kit's configuration.
func (d *Driver) own(where func() p11kit.Places) (all []Module, seen map[string]bool, proxied bool) {
	seen = map[string]bool{}
	for _, m := range d.options.Modules {
		if !strings.ContainsRune(m.Path, '/') {
			m.Path = where().Resolve(m.Path)
		}
		if m.real = p11kit.Real(m.Path); !seen[m.real] {
			seen[m.real] = true
			proxied = proxied || p11kit.IsProxy(m.real)
			all = append(all, m)
		}
	}
	return all, seen, proxied
}

// match is a token that a URI names.
type match struct {
	module *module
	info   hsm.TokenInfo
	read   time.Time // info is of then, or later
}

// Open implements [hsm.Driver]. Modules are loaded one after the other; the
// first token that fits is taken if u has a serial, else all are looked
// through, so that an ambiguous name is noticed.
func (d *Driver) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	if u.Scheme != hsm.SchemePKCS11 {
		return nil, fmt.Errorf("%s: %w", u, hsm.ErrNoToken)
	}
	s, err := d.search(ctx, u)
	if err == nil && len(s.found) == 0 {
		anew := false
		for _, m := range s.modules {
			anew = d.restart(ctx, m) || anew
		}
		if anew {
			s, err = d.search(ctx, u)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(s.found) == 1:
		return d.device(s.found[0])
	case len(s.found) > 1:
		return nil, several(u, s.found)
	case len(s.blank) > 0:
		return nil, hint.With(fmt.Errorf("%s: the token is not initialized: %w", u, hsm.ErrNoToken),
			"initialize it with `kubehsm token init`")
	case len(s.failed) > 0:
		return nil, missing(u, s.failed)
	}
	return nil, hint.With(fmt.Errorf("%s: %w", u, hsm.ErrNoToken), u.Place().Missing())
}

// missing says that u was not found where some modules failed.
func missing(u hsm.URI, failed []error) error {
	why := errors.Join(failed...)
	if errors.Is(why, hsm.ErrNoToken) {
		return fmt.Errorf("%s: %w", u, why)
	}
	return fmt.Errorf("%s: %w: %w", u, hsm.ErrNoToken, why)
}

// search is what looking for a token gave.
type search struct {
	modules      []*module
	found, blank []match // set up, and not
	failed       []error
}

// search looks for the tokens that u names. Its error is the end of ctx, or of d.
func (d *Driver) search(ctx context.Context, u hsm.URI) (s search, err error) {
	candidates, _ := d.candidates(u)
	for _, c := range candidates {
		now := time.Now()
		m, tokens, problems, err := d.tokens(ctx, c)
		if ctx.Err() != nil || errors.Is(err, errClosed) {
			return s, errors.Join(ctx.Err(), err)
		}
		if err != nil {
			s.failed = append(s.failed, err)
		}
		if m != nil {
			s.modules = append(s.modules, m)
		}
		for _, p := range problems {
			s.failed = append(s.failed, p.Err)
		}
		for _, info := range matching(tokens, u) {
			if info.Initialized {
				s.found = append(s.found, match{m, info, now})
			} else {
				s.blank = append(s.blank, match{m, info, now})
			}
		}
		if len(s.found) > 0 && u.Serial != "" {
			break
		}
	}
	return s, nil
}

// matching returns the tokens that u names. Some libraries change a token's
// label with its certificate: if nothing fits exactly, a full identity fits
// without the label.
func matching(tokens []hsm.TokenInfo, u hsm.URI) []hsm.TokenInfo {
	u.ModulePath, u.ModuleName = "", "" // settled by the choice of modules
	fit := func(u hsm.URI) (all []hsm.TokenInfo) {
		for _, t := range tokens {
			if u.MatchToken(t) {
				all = append(all, t)
			}
		}
		return all
	}
	all := fit(u)
	if len(all) == 0 && u.Serial != "" && u.Model != "" && u.Manufacturer != "" {
		u.Token = ""
		all = fit(u)
	}
	return all
}

func several(u hsm.URI, found []match) error {
	names := make([]string, 0, len(found))
	for _, f := range found {
		names = append(names, "'"+f.info.URI().String()+"'")
	}
	return hint.With(fmt.Errorf("%s: %w", u, hsm.ErrSeveralTokens), "name one of "+strings.Join(names, ", "))
}

// device returns a token on the device of f.
func (d *Driver) device(f match) (hsm.Token, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	id := identify(f.module, f.info)
	dev := d.devices[id]
	if dev == nil {
		dev = newDevice(f.module, f.info, f.read)
		d.devices[id] = dev
	}
	dev.users.Add(1)
	return &token{d: dev}, nil
}

// Close implements [hsm.Driver]: all tokens are logged out.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	var errs []error
	for _, dev := range d.devices {
		errs = append(errs, dev.close())
	}
	for _, m := range d.modules {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}
