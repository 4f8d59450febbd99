package piv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Options set up a [Driver]. The zero value is right for production.
type Options struct {
	// Patience is how long to wait for a card that another program holds
	// before [hsm.ErrBusy]; 0 is two seconds.
	Patience time.Duration
	// Finishing is told where a card has begun what must not be given up; may be nil.
	Finishing hsm.Finishing
}

// Driver reaches the PIV cards in this machine's PC/SC readers.
type Driver struct {
	cards *cards

	mu     sync.Mutex
	tokens map[*Token]struct{}
}

var (
	_ hsm.Surveyor = (*Driver)(nil)
	_ hsm.Watcher  = (*Driver)(nil)
)

// defaultPatience lets ssh or gpg finish a signature.
const defaultPatience = 2 * time.Second

// New returns the driver. It touches nothing until it is used.
func New(o Options) *Driver {
	return &Driver{
		cards: &cards{
			system: pcsc.New(), patience: cmp.Or(o.Patience, defaultPatience), finish: o.Finishing,
			row:   longestRow,
			turns: map[string]*turn{}, known: map[insertion]hsm.Abilities{},
		},
		tokens: map[*Token]struct{}{},
	}
}

// Scheme implements [hsm.Driver].
func (d *Driver) Scheme() string { return hsm.SchemePIV }

// List implements [hsm.Driver]. Readers that are empty, foreign cards, cards
// that are busy or do not answer become Problems; [pcsc.ErrNoService]
// and [pcsc.ErrDenied] are the errors of the whole.
func (d *Driver) List(ctx context.Context) (hsm.Listing, error) {
	l, err := d.list(ctx)
	return l.Listing, err
}

// Sources implements [hsm.Surveyor]: there is one, the smart card service.
func (*Driver) Sources(hsm.URI) ([]hsm.Source, []hsm.Problem) {
	return []hsm.Source{{Scheme: hsm.SchemePIV}}, nil
}

// Survey implements [hsm.Surveyor].
func (d *Driver) Survey(ctx context.Context, _ hsm.Source) (hsm.Listing, error) { return d.List(ctx) }

// Match implements [hsm.Surveyor].
func (*Driver) Match(tokens []hsm.TokenInfo, u hsm.URI) (all []hsm.TokenInfo) {
	for _, t := range tokens {
		if u.TokenOnly().MatchToken(t) {
			all = append(all, t)
		}
	}
	return all
}

// listing is what was found, and the readers as they were then.
type listing struct {
	hsm.Listing
	readers []pcsc.Reader
}

func (d *Driver) list(ctx context.Context) (listing, error) {
	var l listing
	if err := ctx.Err(); err != nil {
		return l, err
	}
	readers, err := d.cards.system.Readers()
	if errors.Is(err, pcsc.ErrNoReader) {
		l.Problems = append(l.Problems, hsm.Problem{Source: "PC/SC", Err: err})
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.readers = readers
	for _, r := range readers {
		info, err := operate(ctx, d.cards, r, func(s *applet.Session) (hsm.TokenInfo, error) {
			return d.cards.describe(s, r)
		})
		if err != nil {
			if ctx.Err() != nil {
				return l, ctx.Err()
			}
			l.Problems = append(l.Problems, hsm.Problem{Source: r.Name, Err: err})
			continue
		}
		l.Tokens = append(l.Tokens, info)
	}
	return l, nil
}

// Open implements [hsm.Driver].
func (d *Driver) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	if u.Scheme != hsm.SchemePIV {
		return nil, fmt.Errorf("scheme %q: %w", u.Scheme, hsm.ErrNoToken)
	}
	l, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	found := d.Match(l.Tokens, u)
	switch {
	case len(found) == 0:
		return nil, notFound(u, l.Listing)
	case len(found) > 1:
		return nil, hinting.With(fmt.Errorf("%d PIV cards: %w", len(found), hsm.ErrSeveralTokens), oneOf(found))
	}
	about := found[0]
	for _, r := range l.readers {
		if r.Name == about.Reader {
			return d.newToken(about, r), nil
		}
	}
	return nil, notFound(u, l.Listing) // never: each token is in a reader
}

// oneOf says how to name one of several cards.
func oneOf(found []hsm.TokenInfo) string {
	for _, info := range found[1:] {
		if info.Serial == found[0].Serial {
			return "the cards have the same identity, or none: leave one in its reader"
		}
	}
	for _, info := range found {
		if info.Serial != "" {
			return "name one by its serial, as " + info.URI().String()
		}
	}
	return "leave one in its reader"
}

// notFound says why no token fits: the likeliest problem if there is one.
func notFound(u hsm.URI, l hsm.Listing) error {
	for _, p := range l.Problems {
		if errors.Is(p.Err, hsm.ErrBusy) {
			return p.Err
		}
	}
	if len(l.Tokens) == 0 && u.Serial == "" && len(l.Problems) > 0 {
		if p := l.Problems[0]; errors.Is(p.Err, hsm.ErrNoToken) {
			return p.Err
		}
		return fmt.Errorf("%w: %w", hsm.ErrNoToken, l.Problems[0].Err)
	}
	if len(l.Tokens) == 0 && len(l.Problems) == 1 && errors.Is(l.Problems[0].Err, pcsc.ErrNoReader) {
		return l.Problems[0].Err
	}
	hint := hsm.InReader.Back()
	if len(l.Tokens) > 0 {
		hint += ", or use the one that is there: " + l.Tokens[0].URI().String()
	}
	return hinting.With(fmt.Errorf("%s: %w", u.TokenOnly(), hsm.ErrNoToken), hint)
}

// pollReaders is the pause between two looks at the readers.
const pollReaders = 250 * time.Millisecond

// Watch implements [hsm.Watcher]. It looks again and again, as not every PC/SC
// tells of readers that come and go.
func (d *Driver) Watch(ctx context.Context) error {
	look := func() string {
		readers, err := d.cards.system.Readers()
		text := fmt.Sprint(err)
		for _, r := range readers {
			text += fmt.Sprintf("\n%q %v %x %d", r.Name, r.Present, r.ATR, r.Events)
		}
		return text
	}
	tick := time.NewTicker(pollReaders)
	defer tick.Stop()
	for first := look(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if look() != first {
				return nil
			}
		}
	}
}

// newToken returns a token that is forgotten when it is closed.
func (d *Driver) newToken(info hsm.TokenInfo, in pcsc.Reader) *Token {
	t := &Token{
		card:   &card{cards: d.cards, info: info, reader: in.Name, events: in.Events},
		asking: make(chan struct{}, 1), closed: d.forget,
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tokens[t] = struct{}{}
	return t
}

func (d *Driver) forget(t *Token) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tokens, t)
}

// Close implements [hsm.Driver]: all tokens opened from d forget their PINs.
func (d *Driver) Close() error {
	d.cards.close()
	d.mu.Lock()
	tokens := d.tokens
	d.tokens = map[*Token]struct{}{}
	d.mu.Unlock()
	for t := range tokens {
		t.card.pin.drop()
	}
	return nil
}
