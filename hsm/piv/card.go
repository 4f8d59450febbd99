package piv

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// card is one card, in whatever reader it is now, with the PIN that it accepted.
type card struct {
	cards *cards
	pin   heldPIN

	mu     sync.Mutex
	info   hsm.TokenInfo // the token as it was opened, with the PIN state of that moment
	reader string        // the reader in which the card was seen last
	events uint32        // the reader's event count when the card was opened
}

// on runs f on the card, in whatever reader it is now. The identity is checked
// first, so that nothing meant for this card reaches another.
func on[T any](ctx context.Context, c *card, f func(*applet.Session) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if c.cards.isClosed() {
		return none, fmt.Errorf("the driver is closed: %w", hsm.ErrNoToken)
	}
	readers, err := c.cards.system.Readers()
	if err != nil {
		if errors.Is(err, pcsc.ErrNoReader) { // a YubiKey takes its reader with it
			c.pin.drop()
			err = fmt.Errorf("token %q: %w", c.about().Name(), hsm.ErrRemoved)
		}
		return none, err
	}
	var trouble error
	for _, r := range c.order(readers) {
		c.pin.notice(r)
		v, err := operate(ctx, c.cards, r, func(s *applet.Session) (T, error) {
			if s.ID.Serial != c.about().Serial {
				return none, errOtherCard
			}
			c.seen(r)
			return f(s)
		})
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, errOtherCard), isForeign(err), errors.Is(err, pcsc.ErrMute), errors.Is(err, pcsc.ErrNoCard):
			continue
		case ctx.Err() != nil:
			return none, ctx.Err()
		case c.place() == r.Name:
			if errors.Is(err, hsm.ErrRemoved) {
				c.pin.drop()
			}
			return none, err
		default: // another reader's card may be busy: ours may be elsewhere
			trouble = err
		}
	}
	if errors.Is(trouble, hsm.ErrBusy) {
		return none, trouble
	}
	c.pin.drop()
	return none, hint.With(fmt.Errorf("token %q: %w", c.about().Name(), hsm.ErrRemoved), hsm.InReader.Back()+" again")
}

// do is [on] for what has no result but its error.
func do(ctx context.Context, c *card, f func(*applet.Session) error) error {
	_, err := on(ctx, c, func(s *applet.Session) (struct{}, error) { return struct{}{}, f(s) })
	return err
}

// order puts the reader where the card was seen last first, and leaves out
// empty ones.
func (c *card) order(readers []pcsc.Reader) []pcsc.Reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first, rest []pcsc.Reader
	for _, r := range readers {
		switch {
		case !r.Present:
		case c.info.Serial == "" && r.Events != c.events: // another one, for all that is known
		case r.Name == c.reader:
			first = append(first, r)
		case c.info.Serial != "": // a card without an identity is known by its reader alone
			rest = append(rest, r)
		}
	}
	return append(first, rest...)
}

// about returns the card's description.
func (c *card) about() hsm.TokenInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info
}

// place returns the name of the reader where the card was seen last.
func (c *card) place() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reader
}

func (c *card) seen(r pcsc.Reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reader = r.Name
}

// christen sees to it that the card has a name, before anything is written that it would
// otherwise be known by.
func (c *card) christen(s *applet.Session) error {
	err := s.Christen()
	c.renamed(s)
	return err
}

// renamed takes over who the card is now.
func (c *card) renamed(s *applet.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.info.Serial = s.ID.Serial
}

// begin begins to write: the card has a name, and what follows is not left half-way.
func (c *card) begin(s *applet.Session) error {
	if err := c.christen(s); err != nil {
		return err
	}
	return s.Commit()
}

// keep keeps a PIN that the card accepted in the reader where it is now.
func (c *card) keep(pin *hsm.Secret) {
	in := pcsc.Reader{Name: c.place()}
	readers, err := c.cards.system.Readers()
	if err == nil {
		for _, r := range readers {
			if r.Name == in.Name {
				in = r
			}
		}
	}
	c.pin.keep(pin, in)
}

// mine refuses a URI that names another token.
func (c *card) mine(u hsm.URI) error {
	about := c.about()
	if u.Scheme != hsm.SchemePIV || u.Serial != "" && u.Serial != about.Serial {
		return fmt.Errorf("%s is not on token %q: %w", u, about.Name(), hsm.ErrNoKey)
	}
	return nil
}

// touching has p say that a touch may be awaited, until the returned function is called.
func (c *card) touching(ctx context.Context, s *applet.Session, p hsm.Prompter) (done func()) {
	if p == nil {
		return func() {}
	}
	return s.Operation().Show(ctx, func() func() { return p.Touch(ctx, hsm.TouchPrompt{Token: c.about()}) })
}
