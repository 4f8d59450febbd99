package token

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// watched is a driver that tells when tokens come or go.
type watched struct {
	*hsmtest.Fake
	changes chan struct{}
	over    <-chan struct{}
}

// change tells of n changes. When it returns, every look that began two changes ago has
// ended.
func (w watched) change(n int) {
	for range n {
		select {
		case w.changes <- struct{}{}:
		case <-w.over:
		}
	}
}

func (w watched) Watch(ctx context.Context) error {
	select {
	case <-w.changes:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestWait: a token is there, comes, comes back, or does not come.
func TestWait(t *testing.T) {
	for name, c := range map[string]struct {
		kind    string
		o       func(*flowtest.World) WaitOptions
		before  func(*flowtest.World)
		waiting func(w *flowtest.World, d watched, stop func())
		want    error
	}{
		"there":                      {},
		"not set up by this program": {o: func(*flowtest.World) WaitOptions { return WaitOptions{Token: hsm.URI{Scheme: "tpm"}} }, want: hsm.ErrUnavailable},
		"comes": {before: func(w *flowtest.World) { w.Card.Unplug() },
			waiting: func(w *flowtest.World, d watched, _ func()) { w.Card.Plug(); d.change(1) }},
		"ctrl-c": {before: func(w *flowtest.World) { w.Card.Unplug() },
			waiting: func(_ *flowtest.World, _ watched, stop func()) { stop() }, want: context.Canceled},
		"a new one": {o: func(*flowtest.World) WaitOptions { return WaitOptions{New: true} },
			waiting: func(w *flowtest.World, d watched, _ func()) {
				w.Card.Unplug()
				d.change(3)
				w.Card.Plug()
				d.change(1)
			}},
		"by its name, of a library that is slow to see it": {kind: hsm.SchemePKCS11,
			o:       func(w *flowtest.World) WaitOptions { return WaitOptions{Token: w.Card.Info().URI()} },
			before:  func(w *flowtest.World) { w.Card.Fail(hsmtest.OpInfo, hsm.ErrRemoved) },
			waiting: func(w *flowtest.World, d watched, _ func()) { w.Card.Before(nil); d.change(1) }},
		"by its name, of a library that fails": {kind: hsm.SchemePKCS11,
			o:      func(w *flowtest.World) WaitOptions { return WaitOptions{Token: w.Card.Info().URI()} },
			before: func(w *flowtest.World) { w.Card.Fail(hsmtest.OpInfo, hsm.ErrModule) }, want: hsm.ErrModule},
	} {
		t.Run(name, func(t *testing.T) {
			if c.kind == "" {
				c.kind = hsm.SchemePIV
			}
			w := flowtest.NewWorld(t, c.kind, hsmtest.FakeOptions{}, "")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			d := watched{w.Env.Drivers[0].(*hsmtest.Fake), make(chan struct{}), ctx.Done()}
			w.Env.Drivers[0] = d
			if c.before != nil {
				c.before(w)
			}
			o := WaitOptions{}
			if c.o != nil {
				o = c.o(w)
			}
			asked := 0
			o.Waiting = func([]hsm.Problem, []hsm.TokenInfo) {
				if asked++; c.waiting == nil {
					t.Error("the call waits")
					stop()
					return
				}
				go c.waiting(w, d, stop)
			}
			found, err := Tokens{w.Env}.Wait(ctx, o)
			if !errors.Is(err, c.want) || (err == nil) != (len(found) == 1) || asked > 1 {
				t.Errorf("%d found, %v, told %d times", len(found), err, asked)
			}
		})
	}
}

// TestFreshPUK: a generated PUK is shown if it may be in force, and wiped if not.
func TestFreshPUK(t *testing.T) {
	again := hsm.PINPrompt{Kind: hsm.PUK, New: true, Again: "it is too short"}
	for name, c := range map[string]struct {
		asked []hsm.PINPrompt
		err   error
		shown bool
	}{
		"done":              {[]hsm.PINPrompt{{Kind: hsm.PUK, New: true}}, nil, true},
		"pulled at the end": {[]hsm.PINPrompt{{Kind: hsm.PUK, New: true}}, hsm.ErrRemoved, true},
		"refused":           {[]hsm.PINPrompt{{Kind: hsm.PUK, New: true}}, hsm.ErrPINInvalid, false},
		"not asked for":     {[]hsm.PINPrompt{{Kind: hsm.PIVPIN}}, hsm.ErrRemoved, false},
		"asked for twice":   {[]hsm.PINPrompt{again}, nil, false},
	} {
		f, err := NewFreshPUK()
		must.OK(t, err)
		p := f.Before(hsmtest.Typing(t, "123456"))
		for _, q := range c.asked {
			pin, err := p.PIN(t.Context(), q)
			switch {
			case q.Again != "":
				if !errors.Is(err, hsm.ErrPINInvalid) {
					t.Errorf("%s: %v", name, err)
				}
			case err != nil || pin.Len() != map[bool]int{true: pukDigits, false: 6}[q.New]:
				t.Errorf("%s: %d digits, %v", name, pin.Len(), err)
			}
		}
		puk := f.InForce(c.err)
		if (puk != nil) != c.shown || !c.shown && f.secret.Len() != 0 {
			t.Errorf("%s: shown %v, left %d", name, puk != nil, f.secret.Len())
		}
	}
}

// TestWaitForAMissedInsertion: a token that came after the look, and before the driver began to
// watch, is found all the same.
func TestWaitForAMissedInsertion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "")
		w.Card.Unplug()
		w.Env.Drivers[0] = watched{Fake: w.Env.Drivers[0].(*hsmtest.Fake)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		found, err := Tokens{w.Env}.Wait(ctx, WaitOptions{
			Waiting: func([]hsm.Problem, []hsm.TokenInfo) { w.Card.Plug() }})
		if err != nil || len(found) != 1 {
			t.Errorf("%v, %v", found, err)
		}
	})
}
