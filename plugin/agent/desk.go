package agent

import (
	"context"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
)

// maxPIN bounds a PIN in bytes; the longest that tokens take are far shorter.
const maxPIN = 1 << 10

// desk serves the agent's prompts at the client, each in a goroutine of its
// own: the connection must be read on, to notice that the agent gave up.
type desk struct {
	ctx    context.Context
	cancel context.CancelFunc
	client *Client
	p      hsm.Prompter
	wg     sync.WaitGroup

	mu      sync.Mutex
	touches map[int]func()
}

func newDesk(ctx context.Context, c *Client, p hsm.Prompter) *desk {
	ctx, cancel := context.WithCancel(ctx)
	return &desk{ctx: ctx, cancel: cancel, client: c, p: p, touches: map[int]func(){}}
}

// ask starts a prompt.
func (d *desk) ask(p prompt) {
	switch {
	case p.Touch != nil:
		if d.p == nil {
			return
		}
		done := d.p.Touch(d.ctx, *p.Touch)
		d.mu.Lock()
		d.touches[p.ID] = done
		d.mu.Unlock()
	case p.PIN != nil:
		d.wg.Go(func() { d.pin(p.ID, *p.PIN) })
	case p.Confirm != nil:
		d.wg.Go(func() { d.confirm(p.ID, *p.Confirm) })
	}
}

func (d *desk) pin(id int, p hsm.PINPrompt) {
	if d.p == nil {
		d.answer(answer{ID: id, Error: toFailure(hsm.ErrNoTerminal)})
		return
	}
	pin, err := d.p.PIN(d.ctx, p)
	defer pin.Zero()
	if err == nil && pin.Len() > maxPIN {
		err = hsm.ErrPINInvalid
	}
	if err != nil {
		d.answer(answer{ID: id, Error: toFailure(err)})
		return
	}
	if d.client.answerPIN(answer{ID: id, Secret: true}, pin) != nil {
		d.cancel() // the reader sees the same broken connection and reports it
	}
}

func (d *desk) confirm(id int, p hsm.ConfirmPrompt) {
	if d.p == nil {
		d.answer(answer{ID: id, Error: toFailure(hsm.ErrNoTerminal)})
		return
	}
	yes, err := d.p.Confirm(d.ctx, p)
	if err != nil {
		d.answer(answer{ID: id, Error: toFailure(err)})
		return
	}
	d.answer(answer{ID: id, Yes: yes})
}

func (d *desk) answer(a answer) {
	if d.client.write(a) != nil {
		d.cancel() // as above
	}
}

// done ends the touch prompt of that id.
func (d *desk) done(id int) {
	d.mu.Lock()
	f := d.touches[id]
	delete(d.touches, id)
	d.mu.Unlock()
	if f != nil {
		f()
	}
}

// close ends whatever is still shown and waits for it to be gone.
func (d *desk) close() {
	d.cancel()
	d.wg.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, f := range d.touches {
		f()
		delete(d.touches, id)
	}
}
