// Package hardware examines a token in somebody's hand, and writes a report of it:
//
//	make hardware-check
//	make hardware-suite TOKEN='piv:serial=12345678' ERASE=12345678
//
// The first only reads. The second runs the contract suite on a token that may be erased.
// One that cannot be reset is used behind a guard, which shows the suite only what it made
// itself, so that nothing which was on the token before is overwritten, deleted or signed
// with.
package hardware

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
)

// guard is a driver for one token that hides what it did not make.
type guard struct {
	hsm.Driver
	slots []string // the PIV slots it may use; nil for PKCS#11

	mu    sync.Mutex
	made  map[string]crypto.PublicKey // by slot id: keys of this run
	stale map[string]crypto.PublicKey // keys of an earlier part of this run, on cards that cannot delete
}

func newGuard(d hsm.Driver, slots []string) *guard {
	return &guard{Driver: d, slots: slots, made: map[string]crypto.PublicKey{}, stale: map[string]crypto.PublicKey{}}
}

// Open implements [hsm.Driver].
func (g *guard) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	t, err := g.Driver.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	return &guarded{Token: t, g: g}, nil
}

func (g *guard) own(s hsm.Slot) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	pub, ok := g.made[s.ID]
	return ok && s.Key != nil && hsm.SameKey(pub, s.Key.Public)
}

// clean deletes the keys made. Those that a card cannot delete are remembered
// as free to be overwritten.
func (g *guard) clean(ctx context.Context, token hsm.URI, p hsm.Prompter) error {
	tok, err := g.Open(ctx, token)
	if err != nil {
		return err
	}
	defer tok.Close()
	mine, err := tok.Slots(ctx, p)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range mine {
		if s.Key == nil {
			continue
		}
		err := tok.Delete(ctx, s.URI, p)
		g.mu.Lock()
		if errors.Is(err, hsm.ErrUnsupported) {
			g.stale[s.ID], err = s.Key.Public, nil
		}
		delete(g.made, s.ID)
		g.mu.Unlock()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// guarded is the token behind the guard. What changes more than a key of this run it
// says that it cannot do.
type guarded struct {
	hsm.Token
	cannot hsm.Unsupported
	g      *guard
}

// Info implements [hsm.Token].
func (t *guarded) Info(ctx context.Context) (hsm.TokenInfo, error) {
	info, err := t.Token.Info(ctx)
	can := &info.Can
	can.Move, can.ChangePIN, can.SetRetries, can.ManagementKey, can.Reset, can.Initialize = false, false, false, false, false, false
	return info, err
}

// Move implements [hsm.Administration].
func (t *guarded) Move(ctx context.Context, from, to hsm.URI, p hsm.Prompter) (hsm.Slot, error) {
	return t.cannot.Move(ctx, from, to, p)
}

// ChangePIN implements [hsm.Administration].
func (t *guarded) ChangePIN(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) error {
	return t.cannot.ChangePIN(ctx, kind, p)
}

// Unblock implements [hsm.Administration].
func (t *guarded) Unblock(ctx context.Context, p hsm.Prompter) error { return t.cannot.Unblock(ctx, p) }

// SetRetries implements [hsm.Administration].
func (t *guarded) SetRetries(ctx context.Context, pin, puk int, p hsm.Prompter) error {
	return t.cannot.SetRetries(ctx, pin, puk, p)
}

// SetManagementKey implements [hsm.Administration].
func (t *guarded) SetManagementKey(ctx context.Context, o hsm.ManagementKeyOptions, p hsm.Prompter) (*hsm.Secret,
	error) {
	return t.cannot.SetManagementKey(ctx, o, p)
}

// Reset implements [hsm.Administration].
func (t *guarded) Reset(ctx context.Context, p hsm.Prompter) error { return t.cannot.Reset(ctx, p) }

// Attest implements [hsm.Administration].
func (t *guarded) Attest(ctx context.Context, u hsm.URI) (hsm.Attestation, error) {
	if _, err := t.Slot(ctx, u); err != nil {
		return hsm.Attestation{}, err
	}
	return t.Token.Attest(ctx, u)
}

// DeleteCertificate implements [hsm.Administration].
func (t *guarded) DeleteCertificate(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	if _, err := t.Slot(ctx, u); err != nil {
		return err
	}
	return t.Token.DeleteCertificate(ctx, u, p)
}

// Slots implements [hsm.Token]: those of this run.
func (t *guarded) Slots(ctx context.Context, p hsm.Prompter) ([]hsm.Slot, error) {
	all, err := t.Token.Slots(ctx, p)
	return slices.DeleteFunc(all, func(s hsm.Slot) bool { return !t.g.own(s) }), err
}

// Slot implements [hsm.Token].
func (t *guarded) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	s, err := t.Token.Slot(ctx, u)
	if err == nil && !t.g.own(s) {
		return hsm.Slot{}, fmt.Errorf("%s was not made by this check: %w", u, hsm.ErrNoKey)
	}
	return s, err
}

// Generate implements [hsm.Token], in the slots that the guard was given and
// only where nothing is but keys of this run.
func (t *guarded) Generate(ctx context.Context, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	if t.g.slots != nil {
		if !slices.Contains(t.g.slots, o.Slot) {
			return hsm.Slot{}, fmt.Errorf("slot %q is not for this check: %w", o.Slot, hsm.ErrUnsupported)
		}
		all, err := t.Token.Slots(ctx, nil)
		if err != nil {
			return hsm.Slot{}, err
		}
		for _, s := range all {
			switch {
			case s.ID != o.Slot || t.g.own(s):
			case t.g.leftover(s):
				o.Overwrite = true
			case occupied(s):
				return hsm.Slot{}, fmt.Errorf("slot %s holds what this check did not make: %w", s.ID, hsm.ErrOccupied)
			default:
				o.Overwrite = false
			}
		}
	}
	s, err := t.Token.Generate(ctx, o, p)
	if err == nil {
		t.g.mu.Lock()
		t.g.made[s.ID] = s.Key.Public
		delete(t.g.stale, s.ID)
		t.g.mu.Unlock()
	}
	return s, err
}

func occupied(s hsm.Slot) bool { return s.Key != nil || s.Certificate != nil || s.Problem != "" }

func (g *guard) leftover(s hsm.Slot) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	pub, ok := g.stale[s.ID]
	return ok && s.Key != nil && hsm.SameKey(pub, s.Key.Public)
}

// StoreCertificate implements [hsm.Token].
func (t *guarded) StoreCertificate(ctx context.Context, u hsm.URI, cert *x509.Certificate, p hsm.Prompter) error {
	if _, err := t.Slot(ctx, u); err != nil {
		return err
	}
	return t.Token.StoreCertificate(ctx, u, cert, p)
}

// Delete implements [hsm.Token].
func (t *guarded) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	if _, err := t.Slot(ctx, u); err != nil {
		return err
	}
	return t.Token.Delete(ctx, u, p)
}

// Signer implements [hsm.Token].
func (t *guarded) Signer(ctx context.Context, u hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer, error) {
	if _, err := t.Slot(ctx, u); err != nil {
		return nil, err
	}
	return t.Token.Signer(ctx, u, want, p)
}
