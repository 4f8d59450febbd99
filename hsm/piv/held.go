package piv

import (
	"errors"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
)

// heldPIN is a PIN that a card accepted, kept to be proved again by each operation
// that needs it.
type heldPIN struct {
	mu  sync.Mutex
	pin *hsm.Secret
	// reader and events are where and when the PIN was typed: a card that was taken
	// out since wants it anew.
	reader string
	events uint32
}

// keep keeps a copy of a PIN.
func (h *heldPIN) keep(pin *hsm.Secret, in pcsc.Reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pin.Zero()
	h.pin, h.reader, h.events = pin.Clone(), in.Name, in.Events
}

// copy returns a copy of the PIN, to be zeroed, or nil.
func (h *heldPIN) copy() *hsm.Secret {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pin == nil {
		return nil
	}
	return h.pin.Clone()
}

func (h *heldPIN) there() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pin != nil
}

// drop forgets the PIN.
func (h *heldPIN) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pin.Zero()
	h.pin = nil
}

// notice drops the PIN if cards came and went in its reader since it was typed.
func (h *heldPIN) notice(r pcsc.Reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pin != nil && h.reader == r.Name && h.events != r.Events {
		h.pin.Zero()
		h.pin = nil
	}
}

// prove proves the PIN to the card. It never spends the last try on it, and forgets a
// PIN that the card refuses. In both cases it returns errNeedPIN, so that a person is asked.
func (h *heldPIN) prove(s *applet.Session) error {
	pin := h.copy()
	if pin == nil {
		return errNeedPIN
	}
	defer pin.Zero()
	state, err := s.PINs.State()
	if err != nil {
		return err
	}
	if state.Locked || state.Final {
		h.drop()
		return errNeedPIN
	}
	err = s.PINs.Verify(pin)
	var wrong *hsm.PINError
	if errors.As(err, &wrong) {
		h.drop()
		return errNeedPIN
	}
	return err
}
