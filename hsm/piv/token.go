package piv

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Token is one PIV card, wherever it is plugged in. It does all of
// [hsm.Administration] that the card can.
type Token struct {
	d      *Driver
	asking chan struct{} // one question about the PIN at a time

	mu     sync.Mutex
	info   hsm.TokenInfo // as opened; its PIN state is of then
	reader string        // where it was seen last
	pin    *hsm.Secret
	// pinReader and pinEvents are where and when the PIN was typed: a card that
	// was taken out since wants it anew.
	pinReader string
	pinEvents uint32
}

var _ hsm.Token = (*Token)(nil)

func (d *Driver) newToken(info hsm.TokenInfo) *Token {
	t := &Token{d: d, info: info, reader: info.Reader, asking: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tokens[t] = struct{}{}
	return t
}

// do runs f on the card, in whatever reader it is now. The identity is checked
// first, so that nothing meant for this card reaches another.
func do[T any](ctx context.Context, t *Token, f func(*session) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if t.d.isClosed() {
		return none, fmt.Errorf("the driver is closed: %w", hsm.ErrNoToken)
	}
	readers, err := t.d.system.readers()
	if err != nil {
		if errors.Is(err, ErrNoReader) { // a YubiKey takes its reader with it
			t.forget()
			err = fmt.Errorf("token %q: %w", t.about().Name(), hsm.ErrRemoved)
		}
		return none, err
	}
	var trouble error
	for _, r := range t.order(readers) {
		t.notice(r)
		v, err := operate(ctx, t.d, r, func(s *session) (T, error) {
			var none T
			id, err := s.identify()
			if err != nil {
				return none, err
			}
			s.id = id
			if s.id.serial != t.about().Serial {
				return none, errOtherCard
			}
			t.seen(r)
			return f(s)
		})
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, errOtherCard), isForeign(err), errors.Is(err, ErrNoCard):
			continue
		case ctx.Err() != nil:
			return none, ctx.Err()
		case t.at(r):
			if errors.Is(err, hsm.ErrRemoved) {
				t.forget()
			}
			return none, err
		default: // another reader's card may be busy: ours may be elsewhere
			trouble = err
		}
	}
	if errors.Is(trouble, hsm.ErrBusy) {
		return none, trouble
	}
	t.forget()
	return none, hint.With(fmt.Errorf("token %q: %w", t.about().Name(), hsm.ErrRemoved), "insert it again")
}

// order puts the reader where the card was seen last first, and leaves out
// empty ones.
func (t *Token) order(readers []reader) []reader {
	serial := t.about().Serial
	t.mu.Lock()
	defer t.mu.Unlock()
	var first, rest []reader
	for _, r := range readers {
		switch {
		case !r.present:
		case r.name == t.reader:
			first = append(first, r)
		case serial != "": // a card that cannot be known is known by its place
			rest = append(rest, r)
		}
	}
	return append(first, rest...)
}

// about returns the token's description.
func (t *Token) about() hsm.TokenInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.info
}

func (t *Token) rename(serial string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.info.Serial = serial
}

func (t *Token) at(r reader) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reader == r.name
}

func (t *Token) seen(r reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reader = r.name
}

// notice drops the PIN if cards came and went in its reader since it was typed.
func (t *Token) notice(r reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pin != nil && t.pinReader == r.name && t.pinEvents != r.events {
		t.dropLocked()
	}
}

// events returns the count of insertions in the reader that the card is in.
func (t *Token) events() (string, uint32) {
	t.mu.Lock()
	name := t.reader
	t.mu.Unlock()
	readers, err := t.d.system.readers()
	if err != nil {
		return name, 0
	}
	for _, r := range readers {
		if r.name == name {
			return name, r.events
		}
	}
	return name, 0
}

// hold keeps a PIN that the card accepted.
func (t *Token) hold(pin *hsm.Secret) {
	name, events := t.events()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropLocked()
	t.pin, t.pinReader, t.pinEvents = pin.Clone(), name, events
}

// held returns a copy of the PIN, to be zeroed, or nil.
func (t *Token) held() *hsm.Secret {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pin == nil {
		return nil
	}
	return t.pin.Clone()
}

func (t *Token) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropLocked()
}

func (t *Token) dropLocked() {
	t.pin.Zero()
	t.pin = nil
}

// Info implements [hsm.Token].
func (t *Token) Info(ctx context.Context) (hsm.TokenInfo, error) {
	return do(ctx, t, func(s *session) (hsm.TokenInfo, error) {
		info := t.about()
		t.mu.Lock()
		info.Reader = t.reader
		t.mu.Unlock()
		var err error
		info.PIN, err = s.pinState()
		return info, err
	})
}

// Unlocked implements [hsm.Token].
func (t *Token) Unlocked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pin != nil
}

// lockPatience bounds how long Lock waits for the card.
const lockPatience = 5 * time.Second

// Lock implements [hsm.Token]: it forgets the PIN, and sees to it that the card
// has forgotten it too, should another program have left it verified.
func (t *Token) Lock() error {
	t.forget()
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	_, err := do(ctx, t, func(s *session) (struct{}, error) {
		s.verified = s.isVerified() // the session's end forgets it
		return struct{}{}, nil
	})
	if errors.Is(err, hsm.ErrRemoved) || errors.Is(err, hsm.ErrNoToken) || errors.Is(err, hsm.ErrBusy) ||
		errors.Is(err, context.DeadlineExceeded) {
		return nil // nothing of ours is verified there
	}
	return err
}

// Close implements [hsm.Token].
func (t *Token) Close() error {
	t.forget()
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	delete(t.d.tokens, t)
	return nil
}

// Slots implements [hsm.Token]: the slots that hold a key or a certificate.
func (t *Token) Slots(ctx context.Context, _ hsm.Prompter) ([]hsm.Slot, error) {
	all, err := t.inventory(ctx, slots())
	if err != nil {
		return nil, err
	}
	var used []hsm.Slot
	for _, s := range all {
		if s.Key != nil || s.Certificate != nil || s.Problem != "" {
			used = append(used, s)
		}
	}
	return used, nil
}

// AllSlots implements [hsm.Administration].
func (t *Token) AllSlots(ctx context.Context) ([]hsm.Slot, error) {
	return t.inventory(ctx, append(slots(), slotAttestation))
}

func (t *Token) inventory(ctx context.Context, ids []byte) ([]hsm.Slot, error) {
	return do(ctx, t, func(s *session) ([]hsm.Slot, error) {
		out := make([]hsm.Slot, 0, len(ids))
		for _, id := range ids {
			c, err := s.read(id)
			if err != nil && !refused(err) && !errors.Is(err, hsm.ErrUnsupported) {
				return nil, err
			}
			slot := c.slot(t.about().URI(), id)
			if err != nil {
				slot.Problem = "unreadable: " + err.Error()
			}
			out = append(out, slot)
		}
		return out, nil
	})
}

// Slot implements [hsm.Token].
func (t *Token) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	if err := t.mine(u); err != nil {
		return hsm.Slot{}, err
	}
	if u.Slot != "" {
		return t.slotByID(ctx, u.Slot)
	}
	all, err := t.Slots(ctx, nil)
	if err != nil {
		return hsm.Slot{}, err
	}
	switch len(all) {
	case 0:
		return hsm.Slot{}, fmt.Errorf("token %q holds none: %w", t.about().Name(), hsm.ErrNoKey)
	case 1:
		return all[0], nil
	}
	return hsm.Slot{}, hint.With(fmt.Errorf("token %q holds %d: %w", t.about().Name(), len(all), hsm.ErrSeveralKeys), "name one by its slot, as "+all[0].URI.String())
}

func (t *Token) slotByID(ctx context.Context, id string) (hsm.Slot, error) {
	n, err := parseSlot(id)
	if err != nil {
		return hsm.Slot{}, err
	}
	return do(ctx, t, func(s *session) (hsm.Slot, error) {
		c, err := s.read(n)
		if err != nil {
			return hsm.Slot{}, fmt.Errorf("slot %s: %w", id, err)
		}
		if c.empty() {
			return hsm.Slot{}, fmt.Errorf("slot %s is empty: %w", id, hsm.ErrNoKey)
		}
		return c.slot(t.about().URI(), n), nil
	})
}

// mine refuses a URI that names another token.
func (t *Token) mine(u hsm.URI) error {
	if u.Scheme != hsm.SchemePIV || u.Serial != "" && u.Serial != t.about().Serial {
		return fmt.Errorf("%s is not on token %q: %w", u, t.about().Name(), hsm.ErrNoKey)
	}
	return nil
}

// Signer implements [hsm.Token].
func (t *Token) Signer(ctx context.Context, u hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer, error) {
	slot, err := t.Slot(ctx, u)
	if err != nil {
		return nil, err
	}
	if slot.Key == nil {
		return nil, fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrNoKey)
	}
	if want != nil && !hsm.SameKey(slot.Key.Public, want) {
		return nil, fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrKeyMismatch)
	}
	id, err := parseSlot(slot.ID)
	if err != nil {
		return nil, err
	}
	code, ok := algorithmCode(slot.Key.Algorithm)
	if !ok {
		return nil, fmt.Errorf("slot %s: keys of type %s: %w", slot.ID, slot.Key.Algorithm, hsm.ErrUnsupported)
	}
	return &signer{ctx: ctx, t: t, p: p, slot: id, code: code, key: *slot.Key}, nil
}

// StoreCertificate implements [hsm.Token].
func (t *Token) StoreCertificate(ctx context.Context, u hsm.URI, cert *x509.Certificate, p hsm.Prompter) error {
	slot, err := t.Slot(ctx, u)
	if err != nil {
		return err
	}
	if slot.Key == nil {
		return fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrNoKey)
	}
	id, err := parseSlot(slot.ID)
	if err != nil {
		return err
	}
	_, err = manage(ctx, t, p, func(s *session) (struct{}, error) {
		// Read again: between the question and now the slot may have changed.
		c, err := s.read(id)
		switch {
		case err != nil:
			return struct{}{}, err
		case c.key == nil:
			return struct{}{}, fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrNoKey)
		case c.source != sourceCertificate && !hsm.SameKey(c.key.Public, cert.PublicKey):
			return struct{}{}, fmt.Errorf("slot %s: the certificate is for another key: %w", slot.ID, hsm.ErrKeyMismatch)
		}
		if err := s.christen(t); err != nil {
			return struct{}{}, err
		}
		if err := s.commit(); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, s.putObject(certificateObject(id), encodeCertificate(cert))
	})
	return err
}
