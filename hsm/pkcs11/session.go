//go:build cgo

package pkcs11

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// session is the session with a token, and the login that goes with it.
type session struct {
	presence
	open   bool
	sh     p11.SessionHandle
	closed bool

	unlocked atomic.Bool
}

// ensure makes the session alive, on the same token as ever.
func (s *session) ensure(ctx context.Context) error {
	if s.closed {
		return errClosed
	}
	if s.open {
		state, err := s.module.ctx.GetSessionInfo(s.sh)
		if err == nil {
			s.unlocked.Store(loggedIn(state))
			return nil
		}
		s.drop()
	}
	if time.Since(s.seen) > justSeen {
		if err := s.locate(ctx); err != nil {
			return err
		}
	}
	s.seen = time.Time{} // the next caller looks again
	var state p11.SessionInfo
	err := s.module.lock.shared(ctx, func() (err error) {
		s.sh, err = s.module.ctx.OpenSession(s.slot, p11.CKF_SERIAL_SESSION)
		if err == nil {
			s.open = true
			state, err = s.module.ctx.GetSessionInfo(s.sh)
		}
		return err
	})
	if err != nil {
		s.drop()
		return fault("open a session", err)
	}
	// Another part of the program may have logged in already.
	s.unlocked.Store(loggedIn(state))
	return nil
}

// loggedIn tells whether the user's login counts in a session.
func loggedIn(s p11.SessionInfo) bool {
	return s.State == p11.CKS_RO_USER_FUNCTIONS || s.State == p11.CKS_RW_USER_FUNCTIONS
}

// usable tells whether keys can be seen and used without asking for a PIN, as far as
// is known.
func (s *session) usable() bool { return s.unlocked.Load() || s.info.PIN.NotNeeded }

// stillUsable is usable, asked of the token. The gate is held.
func (s *session) stillUsable() bool {
	switch {
	case s.closed:
		return false
	case s.info.PIN.NotNeeded:
		return true
	case !s.unlocked.Load() || !s.open:
		return false
	}
	state, err := s.module.ctx.GetSessionInfo(s.sh)
	if err != nil {
		s.drop()
		return false
	}
	return loggedIn(state)
}

// drop forgets a session that is gone, and the login with it.
func (s *session) drop() {
	if s.open {
		_ = s.module.ctx.CloseSession(s.sh) // the session is gone, or of no more use
	}
	s.open = false
	s.unlocked.Store(false)
}

// gone tells a token that failed from one that was pulled: some libraries have
// one code for both. The gate is held.
func (s *session) gone(ctx context.Context, err error) error {
	same := func(t hsm.TokenInfo) bool { return identify(s.module, t) == s.id }
	if tokens, _, scanning := s.module.scan(ctx); scanning != nil || slices.ContainsFunc(tokens, same) {
		return err
	}
	s.drop()
	return fmt.Errorf("%w: %w", s.removed(), err)
}

// login presents the PIN once, if it has as many tries as when it was asked for; a
// nil asked is one that was right a moment ago. A PIN pad's user may take a minute:
// other processes are not kept waiting for that.
func (s *session) login(
	ctx context.Context, sh p11.SessionHandle, user uint, asked *hsm.PINState, pin *hsm.Secret,
) error {
	present := func() error {
		if asked != nil && pin != nil {
			if err := s.unspent(hsm.UserPIN, *asked); err != nil {
				return err
			}
		}
		return s.module.lib.login(s.module.ctx, sh, user, pin)
	}
	var err error
	if pin == nil {
		err = present()
	} else {
		err = s.module.lock.exclusive(ctx, present)
	}
	switch {
	case err == nil, is(err, p11.CKR_USER_ALREADY_LOGGED_IN):
		if user == p11.CKU_USER {
			s.unlocked.Store(true)
		}
		return nil
	case is(err, p11.CKR_PIN_INCORRECT):
		retries := -1
		if s.locate(ctx) == nil {
			retries = s.info.PIN.Retries
		}
		return &hsm.PINError{Kind: hsm.UserPIN, Retries: retries}
	case is(err, p11.CKR_PIN_LOCKED):
		return hint.With(fmt.Errorf("log in: %w (%w)", hsm.ErrPINLocked, err), s.info.Unblock())
	}
	return fault("log in", err)
}

// logout logs out and lets the session go.
func (s *session) logout() error {
	s.unlocked.Store(false)
	if !s.open {
		return nil
	}
	err := s.module.ctx.Logout(s.sh)
	if is(err, p11.CKR_USER_NOT_LOGGED_IN) || lost(err) || s.severed() {
		err = nil
	}
	s.drop()
	return fault("log out", err)
}

// severed tells that the session was by a p11-kit server that has ended: the login ended with
// it. The gate is held.
func (s *session) severed() bool {
	if s.module.about.Server == "" {
		return false
	}
	_, err := s.module.ctx.GetSessionInfo(s.sh)
	return is(err, p11.CKR_DEVICE_ERROR)
}
