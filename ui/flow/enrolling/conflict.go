package enrolling

import (
	"bytes"
	"fmt"
	"strings"

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

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the enrollment %q was begun with %s %q, not %q", e.Name, e.Option, e.Recorded, e.Asked)
}

// Hint says how to go on.
func (e *ConflictError) Hint() string {
	hint := "`" + e.begun.Resume() + "` goes on with what was begun"
	if e.begun.Renewal == nil {
		hint += "; --restart begins anew; another --name makes a second one"
	}
	return hint
}

// Continues tells whether o can go on from j: what it names must be the same.
func (j *Progress) Continues(o Options) error {
	old := j.Options
	for _, c := range []struct{ option, recorded, asked string }{
		{"context", old.Context, o.Context},
		{"kubeconfig cluster", old.Cluster, o.Cluster},
		{"cluster", old.source(), o.source()},
		{"user", old.User, o.User},
		{"groups", strings.Join(old.Groups, ","), strings.Join(o.Groups, ",")},
		{"signer name", old.SignerName, o.SignerName},
		{"algorithm", string(old.Generate.Algorithm), string(o.Generate.Algorithm)},
	} {
		if c.recorded != c.asked {
			return old.Conflict(c.option, c.recorded, c.asked)
		}
	}
	if j.Did(StepToken) && !SameToken(o.Token, old.Token) {
		return old.Conflict("token", old.Token.String(), o.Token.String())
	}
	return j.keepsKey(o)
}

// keepsKey tells whether o wants the key that j has, or has begun to make. Its
// place and policies cannot be changed any more: to go on as if they were would
// leave a weaker key than was asked for.
func (j *Progress) keepsKey(o Options) error {
	old := j.Options
	if j.KeyHash != "" && o.Key.Scheme != "" && !sameKey(o.Key, j.Key) {
		return old.Conflict("key", j.Key.String(), o.Key.String())
	}
	if !j.Generating && j.KeyHash == "" {
		return nil
	}
	for _, c := range []struct{ option, recorded, asked string }{
		{"slot", old.Generate.Slot, o.Generate.Slot},
		{"PIN policy", old.Generate.PIN.String(), o.Generate.PIN.String()},
		{"touch policy", old.Generate.Touch.String(), o.Generate.Touch.String()},
	} {
		if c.recorded != c.asked {
			return old.Conflict(c.option, c.recorded, c.asked)
		}
	}
	return nil
}

// sameKey is [sameToken] for keys.
func sameKey(asked, recorded hsm.URI) bool {
	return SameToken(asked, recorded) && (asked.Object == "" || asked.Object == recorded.Object) &&
		(len(asked.ID) == 0 || bytes.Equal(asked.ID, recorded.ID)) && (asked.Slot == "" || asked.Slot == recorded.Slot)
}

// SameToken tells whether asked, which may be short, names what recorded, which
// is whole, names.
func SameToken(asked, recorded hsm.URI) bool {
	eq := func(a, r string) bool { return a == "" || a == r }
	return asked.Scheme == recorded.Scheme && eq(asked.Token, recorded.Token) && eq(asked.Serial, recorded.Serial) &&
		eq(asked.Manufacturer, recorded.Manufacturer) && eq(asked.Model, recorded.Model)
}
