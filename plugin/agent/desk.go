package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kubehsm/kubehsm/hsm"
)

// maxPIN bounds a PIN in bytes; the longest that tokens take are far shorter.
const maxPIN = 1 << 10

// posted is a prompt that is shown.
type posted struct {
	down   func()       // takes it down
	shared *atomic.Bool // see [hsm.WithShared]
}

// desk serves the agent's prompts at the client, each in a goroutine of its
// own: the connection must be read on, to notice that the agent gave up.
type desk struct {
	ctx    context.Context
	cancel context.CancelFunc
	client *Client
	p      hsm.Prompter
	wg     sync.WaitGroup

	mu    sync.Mutex
	shown map[int]posted
	waits map[int]bool // those of them that say why the client waits
}

func newDesk(ctx context.Context, c *Client, p hsm.Prompter) *desk {
	ctx, cancel := context.WithCancel(ctx)
	return &desk{ctx: ctx, cancel: cancel, client: c, p: p, shown: map[int]posted{}, waits: map[int]bool{}}
}

// ask starts a prompt.
func (d *desk) ask(p prompt) {
	shared := new(atomic.Bool)
	shared.Store(p.Shared)
	ctx := hsm.WithShared(context.WithValue(d.ctx, rawKey{}, p.Raw), shared.Load)
	ctx, cancel := context.WithCancel(ctx)
	down := cancel
	if !p.Reach {
		d.quiet() // what comes now is shown in its place
	}
	if p.Wait != nil && d.client.Waiting != nil {
		done := d.client.Waiting(*p.Wait)
		down = func() { done(); cancel() }
	}
	if p.Touch != nil && d.p != nil {
		done := d.p.Touch(ctx, *p.Touch)
		down = func() { done(); cancel() }
	}
	d.mu.Lock()
	d.shown[p.ID] = posted{down, shared}
	if p.Wait != nil {
		d.waits[p.ID] = true
	}
	d.mu.Unlock()
	answer := func(f func()) {
		d.wg.Go(func() {
			defer d.done(p.ID)
			f()
		})
	}
	switch {
	case p.PIN != nil:
		answer(func() { d.pin(ctx, p.ID, *p.PIN) })
	case p.Confirm != nil:
		answer(func() { d.confirm(ctx, p.ID, *p.Confirm) })
	case p.Reach:
		answer(func() { d.reach(ctx, p.ID) })
	}
}

// reach answers whether a touch would be seen now.
func (d *desk) reach(ctx context.Context, id int) {
	err := hsm.ErrUnsupported
	if p, ok := d.p.(reacher); ok {
		err = p.Reach(ctx)
	}
	if err != nil {
		d.answer(answer{ID: id, Error: toFailure(err)})
		return
	}
	d.answer(answer{ID: id, Yes: true})
}

func (d *desk) pin(ctx context.Context, id int, p hsm.PINPrompt) {
	if d.p == nil {
		d.answer(answer{ID: id, Error: toFailure(hsm.ErrNoTerminal)})
		return
	}
	pin, err := d.p.PIN(ctx, p)
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

func (d *desk) confirm(ctx context.Context, id int, p hsm.ConfirmPrompt) {
	if d.p == nil {
		d.answer(answer{ID: id, Error: toFailure(hsm.ErrNoTerminal)})
		return
	}
	yes, err := d.p.Confirm(ctx, p)
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

// done takes the prompt of that id down.
func (d *desk) done(id int) {
	d.mu.Lock()
	f := d.shown[id].down
	delete(d.shown, id)
	delete(d.waits, id)
	d.mu.Unlock()
	if f != nil {
		f()
	}
}

// share notes that others may write where the prompts are shown.
func (d *desk) share() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.shown {
		s.shared.Store(true)
	}
}

// quiet ends what says why the client waits.
func (d *desk) quiet() {
	d.mu.Lock()
	waits := slices.Collect(maps.Keys(d.waits))
	d.mu.Unlock()
	for _, id := range waits {
		d.done(id)
	}
}

// close ends whatever is still shown and waits for it to be gone.
func (d *desk) close() {
	d.cancel()
	d.wg.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, s := range d.shown {
		s.down()
		delete(d.shown, id)
	}
}
