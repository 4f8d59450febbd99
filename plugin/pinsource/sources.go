package pinsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// Options set up [Sources].
type Options struct {
	// Entries are those of the user's configuration.
	Entries []Entry
	// State is a private folder that remembers what was refused. It is made when
	// needed.
	State string
	// Getenv reads the environment.
	Getenv func(string) string
	// Descriptors allows "fd:N": the process was started for one task, by
	// somebody who opened them for it.
	Descriptors bool
	// Waiting, if not nil, shows that another process tries the PIN, until done is
	// called. It returns at once, and may wait a moment before it shows anything.
	Waiting func(ask.Wait) (done func())
}

// Sources answer prompts for the user PIN of the tokens that have a source,
// and passes on all others. A source is not used
//
//   - while the token counts wrong PINs, as far as it tells: that leaves the rest
//     of the tries to a person;
//   - again, once the token has refused what is in it. That is remembered in the
//     state folder by the file's inode, size and time, not by its content, so that
//     the next process leaves it alone as well, until the file has changed. What
//     systemd passes has no such marks: there the memory must be removed by hand.
//     Of a pipe nothing is remembered;
//   - by two at once: the others wait until the first knows what the token says.
//
// The person who is asked instead is told why. Where there is none, that is the
// error.
type Sources struct {
	o Options

	mu      sync.Mutex
	given   map[Source]string // the identity of what was just answered
	refused map[string]bool   // the marks of what was refused
	kept    map[Source]kept   // descriptors can be read only once
	locks   map[Source]lock   // sources whose PIN has not been judged yet
}

type kept struct {
	pin      *hsm.Secret
	identity string
}

// New returns the sources.
func New(o Options) *Sources {
	return &Sources{o: o, given: map[Source]string{}, refused: map[string]bool{}, kept: map[Source]kept{},
		locks: map[Source]lock{}}
}

// Close forgets the PINs that were read from descriptors, and lets others try.
// No token may be using an answer any more.
func (p *Sources) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for s := range p.locks {
		errs = append(errs, p.leave(s))
	}
	for s, k := range p.kept {
		k.pin.Zero()
		delete(p.kept, s)
	}
	return errors.Join(errs...)
}

// Before puts the sources before next; it is an [ask.Middleware].
func (p *Sources) Before(next ask.Func) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) { return p.first(ctx, next, q) }
}

// Lazy is [Sources.Before] with the sources, and the next to ask, that made returns. made is
// called once, when somebody is asked: most runs ask nobody, and need not read the user's
// configuration.
func Lazy(made func() (p *Sources, next ask.Func, err error)) ask.Func {
	var (
		once sync.Once
		p    *Sources
		next ask.Func
		err  error
	)
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		once.Do(func() { p, next, err = made() })
		if err != nil {
			return ask.Answer{}, err
		}
		return p.first(ctx, next, q)
	}
}

func (p *Sources) first(ctx context.Context, next ask.Func, q ask.Question) (ask.Answer, error) {
	if q.PIN == nil {
		return next(ctx, q)
	}
	e, ok := p.entry(*q.PIN)
	if !ok {
		return next(ctx, q)
	}
	pin, why := p.answer(ctx, e, *q.PIN)
	if why == nil {
		return ask.Answer{PIN: pin, Given: true}, nil
	}
	return instead(ctx, next, q, why)
}

// instead asks a person, and gives the reason.
func instead(ctx context.Context, next ask.Func, q ask.Question, why error) (ask.Answer, error) {
	if q.PIN.Again == "" {
		prompt := *q.PIN
		prompt.Again = why.Error()
		q.PIN = &prompt
	}
	a, err := next(ctx, q)
	if !errors.Is(err, hsm.ErrNoTerminal) {
		return a, err
	}
	if errors.Is(why, hsm.ErrPINIncorrect) {
		return ask.Answer{}, why // the first reason counts
	}
	hint := hinting.Of(why)
	if hint == "" {
		hint = hinting.Of(err)
	}
	// Not wrapped: nothing that asks again for another reason may do so here.
	return ask.Answer{}, hinting.With(fmt.Errorf("%w, and %s", hsm.ErrNoTerminal, why.Error()), hint)
}

func (p *Sources) entry(q hsm.PINPrompt) (Entry, bool) {
	if q.New || q.Typed || q.Kind != hsm.UserPIN && q.Kind != hsm.PIVPIN {
		return Entry{}, false
	}
	for _, e := range p.o.Entries {
		if e.Token.MatchToken(q.Token) && (e.Source.kind != descriptor || p.o.Descriptors) {
			return e, true
		}
	}
	return Entry{}, false
}

func (p *Sources) answer(ctx context.Context, e Entry, q hsm.PINPrompt) (*hsm.Secret, error) {
	s := e.Source
	if err := p.verdict(s, q); err != nil {
		return nil, err
	}
	if e.closed != nil {
		return nil, hinting.With(fmt.Errorf("PIN source %s: %w", s, e.closed),
			"open it in the shell: kubehsm … "+s.name+"< <(print-it)")
	}
	if err := p.take(ctx, s, q); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pin, identity, err := p.fresh(s)
	if err != nil {
		return nil, errors.Join(err, p.leave(s))
	}
	p.given[s] = identity
	return pin, nil
}

// verdict is nil if the PIN in s may be tried. It records the token's answer to the last one.
func (p *Sources) verdict(s Source, q hsm.PINPrompt) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	given, answered := p.given[s]
	delete(p.given, s)
	switch {
	case q.Again != "" && answered:
		return errors.Join(p.remember(s, given), p.leave(s), p.refusal(s, given, q.Again))
	case q.Again != "": // a person's was wrong, and is counted even where the token does not tell
		return errors.New(q.Again)
	case q.Token.PIN.Counted():
		return hinting.With(fmt.Errorf("the PIN from %s is not used: the token counts wrong PINs, or has few tries", s),
			"use it once with the right PIN typed, as with `kubehsm agent lock` and then `kubehsm unlock`; "+
				"a right PIN sets the counter back")
	}
	return nil
}

// fresh reads s, unless the token has refused its content.
func (p *Sources) fresh(s Source) (*hsm.Secret, string, error) {
	pin, identity, err := p.read(s)
	if err != nil {
		return nil, "", err
	}
	refused, err := p.wasRefused(s, identity)
	if refused {
		err = p.refusal(s, identity, fmt.Sprintf("the PIN from %s was refused before", s))
	}
	if err != nil {
		pin.Zero()
		return nil, "", err
	}
	return pin, identity, nil
}

// read reads a descriptor only once.
func (p *Sources) read(s Source) (*hsm.Secret, string, error) {
	if k, ok := p.kept[s]; ok {
		return k.pin.Clone(), k.identity, nil
	}
	pin, identity, err := s.read(p.o.Getenv)
	if err == nil && s.kind == descriptor {
		p.kept[s] = kept{pin.Clone(), identity}
	}
	return pin, identity, err
}

type refusedError struct{ words string }

func (e *refusedError) Error() string { return e.words }
func (e *refusedError) Unwrap() error { return hsm.ErrPINIncorrect }

func (p *Sources) refusal(s Source, identity, words string) error {
	hint := fmt.Sprintf("put the right PIN into %s; it is not tried again before", s)
	switch {
	case s.kind == credential:
		hint = fmt.Sprintf("put the right PIN into %s, then remove %s", s, p.mark(s, identity))
	case identity == "":
		hint = fmt.Sprintf("the PIN came from %s and is tried only once", s)
	}
	return hinting.With(&refusedError{words}, hint)
}

// mark is the path of the empty file which records that the content of s was refused.
func (p *Sources) mark(s Source, identity string) string {
	return p.marks(s) + short(identity)
}

func (p *Sources) marks(s Source) string {
	return filepath.Join(p.o.State, "pin-refused-"+short(s.String())+"-")
}

func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

func (p *Sources) wasRefused(s Source, identity string) (bool, error) {
	mark := p.mark(s, identity)
	if p.refused[mark] || identity == "" {
		return p.refused[mark], nil
	}
	_, err := os.Lstat(mark)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// remember records that the content of s was refused, in place of earlier content.
func (p *Sources) remember(s Source, identity string) error {
	mark := p.mark(s, identity)
	p.refused[mark] = true
	if identity == "" {
		return nil
	}
	old, err := filepath.Glob(p.marks(s) + "*")
	if err != nil {
		return err
	}
	f, _, err := regularfile.Open(mark, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	err = f.Close()
	for _, path := range old {
		if path != mark && err == nil {
			err = os.Remove(path)
		}
	}
	return err
}
