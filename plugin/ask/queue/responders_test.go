package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestResponderSoon: an agent that has just started awaits the open UI that looks for
// it, and nobody for longer.
func TestResponderSoon(t *testing.T) {
	for name, tc := range map[string]struct {
		age    time.Duration // the agent's age
		comes  *Responder
		in     time.Duration
		waited time.Duration
	}{
		"an open UI":           {0, &Responder{}, 100 * time.Millisecond, 100 * time.Millisecond},
		"one that is there":    {0, &Responder{}, 0, 0},
		"another's attendant":  {0, &Responder{Client: process.ID{PID: 7}}, 100 * time.Millisecond, startGrace},
		"nobody":               {0, nil, 0, startGrace},
		"an agent that is old": {startGrace, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := NewResponders(began.Add(-tc.age))
				switch {
				case tc.comes != nil && tc.in == 0:
					s.Add(tc.comes)
				case tc.comes != nil:
					time.AfterFunc(tc.in, func() { s.Add(tc.comes) })
				}
				s.soon(context.Background())
				if waited := time.Since(began); waited != tc.waited {
					t.Errorf("waited %v, not %v", waited, tc.waited)
				}
			})
		})
	}
}

// person answers yes, and shows touches.
type person struct {
	Person
	id    process.ID
	asked int
}

func (p *person) Process() process.ID { return p.id }

func (p *person) Ask(_ context.Context, q ask.Question) (ask.Answer, error) {
	p.asked++
	return ask.Answer{Yes: true, Done: func() {}}, nil
}

// TestWhoIsAsked: a client's own attendant comes first, then the open UIs, the latest first.
// Another client's attendant is never asked.
func TestWhoIsAsked(t *testing.T) {
	s := NewResponders(time.Now().Add(-time.Hour))
	client, other := process.ID{PID: 1 << 30, Start: 1}, process.ID{PID: 1<<30 + 1, Start: 1}
	if s.first(client) != nil || s.Asker(client) != nil {
		t.Error("somebody is there")
	}
	if _, err := s.Instead(client).Confirm(t.Context(), hsm.ConfirmPrompt{}); !errors.Is(err, hsm.ErrNoTerminal) {
		t.Errorf("nobody: %v", err)
	}
	own, foreign, ui, later := &person{id: client}, &person{id: other}, &person{id: other}, &person{id: other}
	s.Add(&Responder{Person: foreign, Client: other})
	s.Add(&Responder{Person: ui})
	gone := s.Add(&Responder{Person: later})
	if s.Open() != 2 {
		t.Errorf("%d open UIs", s.Open())
	}
	asked := func(want *person) {
		t.Helper()
		before := want.asked
		if yes, err := s.Instead(client).Confirm(t.Context(), hsm.ConfirmPrompt{}); !yes || err != nil ||
			want.asked != before+1 {
			t.Errorf("asked %d times, %v, %v", want.asked-before, yes, err)
		}
	}
	asked(later)
	gone()
	asked(ui)
	s.Add(&Responder{Person: own, Client: client})
	asked(own)
	if a, err := s.Instead(client)(t.Context(), ask.Question{Touch: &hsm.TouchPrompt{}}); err != nil || a.Done == nil {
		t.Errorf("a touch is not shown for a client without terminal: %v", err)
	}
	if foreign.asked != 0 {
		t.Error("another client's attendant was asked")
	}
}
