package consents

import (
	"errors"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestAnswersEnd: a pause, or a long time, ends what an answer covers.
func TestAnswersEnd(t *testing.T) {
	errNo := errors.New("no")
	c := New()
	s := Scope{Enrollment: "prod", Client: process.This(), Class: Change}
	read, as := s, s
	read.Class, as.As = Read, "jane"
	now := time.Unix(1e9, 0)
	covered := func(s Scope, after time.Duration) bool {
		err, ok := c.Recall(s, now.Add(after))
		return ok && err == nil
	}
	c.Remember(s, ProgramOf(s.Client), nil, now)
	if !covered(s, 0) || !covered(read, time.Second) || covered(as, 0) ||
		covered(Scope{Enrollment: "prod", Client: s.Client, Class: Delete}, 0) ||
		covered(Scope{Enrollment: "test", Client: s.Client, Class: Change}, 0) {
		t.Error("it covers the wrong requests")
	}
	last := time.Second
	for ; covered(s, last+grantPause-1); last += grantPause - 1 {
	}
	if last < grantLife-grantPause || last > grantLife {
		t.Errorf("it ends after %s", last)
	}
	c.Remember(s, ProgramOf(s.Client), nil, now)
	if covered(s, grantPause) {
		t.Error("a pause does not end it")
	}
	c.Remember(s, ProgramOf(s.Client), errNo, now)
	if err, ok := c.Recall(s, now.Add(time.Second)); !ok || !errors.Is(err, errNo) {
		t.Error("a refusal is forgotten at once")
	}
	if _, ok := c.Recall(read, now.Add(time.Second)); ok {
		t.Error("a refused change refuses reading")
	}
	if _, ok := c.Recall(s, now.Add(2*refusalPause)); ok {
		t.Error("a refusal does not end")
	}
	c.Remember(s, ProgramOf(s.Client), nil, now)
	c.Forget()
	if covered(s, 0) {
		t.Error("a lock does not end it")
	}
	c.Remember(Scope{Enrollment: "prod", Class: Change}, nil, nil, now)
	if covered(Scope{Enrollment: "prod", Class: Change}, 0) {
		t.Error("an unknown client's answer covers another's request")
	}
}

// TestHeldInAll: many processes cannot hold more than the agent bears, either.
func TestHeldInAll(t *testing.T) {
	c := New()
	program := func(i int) process.ID { return process.ID{PID: 1, Start: uint64(1 + i)} }
	var held []func()
	for i := range MaxHeldAll {
		release, ok := c.Hold(program(i / MaxHeld))
		if !ok {
			t.Fatal(i)
		}
		held = append(held, release)
	}
	if _, ok := c.Hold(program(MaxHeldAll)); ok || !c.Waits(program(0)) {
		t.Error("one more is held")
	}
	for _, release := range held {
		release()
	}
	if c.heldAll != 0 || len(c.held) != 0 {
		t.Errorf("%d are held, of %d programs", c.heldAll, len(c.held))
	}
}
