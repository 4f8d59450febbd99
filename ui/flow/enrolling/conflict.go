package enrolling

import (
	"bytes"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
)

// ConflictError says that an enrollment of this name was begun with other options.
type ConflictError struct {
	Name, Option, Recorded, Asked string

	begun Options
}

// Conflict is a [*ConflictError] with what was begun.
func (o Options) Conflict(option, recorded, asked string) error {
	return &ConflictError{Name: o.Name, Option: option, Recorded: recorded, Asked: asked, begun: o}
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("the enrollment %q was begun with %s %q, not %q", e.Name, e.Option, e.Recorded, e.Asked)
}

// Hint says how to go on.
func (e *ConflictError) Hint() string {
	hint := "`" + e.begun.Resume() + "` continues what was begun"
	if e.begun.Renewal == nil {
		hint += "; --restart starts over; another --name makes a second one"
	}
	return hint
}

// Continue goes on from j as o says: what o names must be the same, apart from what
// may differ from run to run.
func (j *Progress) Continue(o Options) error {
	if err := j.continues(o); err != nil {
		return err
	}
	if j.Finished() {
		j.Options.Renewal = nil // the renewal is over, and this enrollment is none
	}
	j.Options.Join = o.Join
	open := map[stage]bool{never: true, fromToken: !j.Did(StepToken), fromKey: j.Request.KeyHash == "",
		fromRequest: len(j.Request.Spec.Request) == 0}
	for _, x := range table() {
		if open[x.fixed] {
			x.copy(&j.Options, &o)
		}
	}
	return nil
}

// continues tells whether o can go on from j. The place and the policies of a key that
// is there, or was begun to be made, cannot be changed any more: to go on as if they
// were would leave a weaker key than was asked for.
func (j *Progress) continues(o Options) error {
	old := j.Options
	if old.source() != o.source() {
		return old.Conflict("cluster", old.source(), o.source())
	}
	if err := old.differs(o, fromBegin); err != nil {
		return err
	}
	if j.Did(StepToken) && !SameToken(o.Token, old.Token) {
		return old.Conflict("token", old.Token.String(), o.Token.String())
	}
	if j.Request.KeyHash != "" && o.Key.Scheme != "" && !sameKey(o.Key, j.Request.Key) {
		return old.Conflict("key", j.Request.Key.String(), o.Key.String())
	}
	if !j.Generating && j.Request.KeyHash == "" {
		return nil
	}
	return old.differs(o, fromKey)
}

// differs is the conflict over an option that is fixed at a stage, nil if there is none.
func (o Options) differs(now Options, at stage) error {
	for _, x := range table() {
		if x.Called == "" || x.fixed != at {
			continue
		}
		if recorded, asked := x.said(&o), x.said(&now); recorded != asked {
			return o.Conflict(x.Called, recorded, asked)
		}
	}
	return nil
}

// said is the option's value for a person.
func (x Option) said(o *Options) string {
	if yes, ok := x.field(o).(*bool); ok {
		return fmt.Sprint(*yes)
	}
	return x.Of(o).Text()
}

// sameKey is [SameToken] for keys. Where both have an id, their labels may differ: OpenSC shows another one without the
// PIN than with it.
func sameKey(asked, recorded hsm.URI) bool {
	ids := len(asked.ID) > 0 && len(recorded.ID) > 0
	return SameToken(asked, recorded) && (ids || asked.Object == "" || asked.Object == recorded.Object) &&
		(len(asked.ID) == 0 || bytes.Equal(asked.ID, recorded.ID)) && (asked.Slot == "" || asked.Slot == recorded.Slot)
}

// SameToken tells whether asked, which may be short, names what recorded, which
// is whole, names.
func SameToken(asked, recorded hsm.URI) bool {
	eq := func(a, r string) bool { return a == "" || a == r }
	return asked.Scheme == recorded.Scheme && eq(asked.Token, recorded.Token) && eq(asked.Serial, recorded.Serial) &&
		eq(asked.Manufacturer, recorded.Manufacturer) && eq(asked.Model, recorded.Model)
}
