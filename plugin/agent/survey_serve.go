//go:build unix

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// lookout is the child's side of a [scout]: it looks at a library and its tokens,
// without a PIN.
type lookout struct {
	slots []*slotReply // slots of the token that was read last
}

// partSize is how much of the slots of a token is sent at a time, in bytes.
const partSize = wire.MaxJSON / 4

// operate does what a scout wants. It returns nil for what is none of its operations.
func (l *lookout) operate(ctx context.Context, drivers hsm.Drivers, r request) (*tokenReply, error) {
	if r.Op != opSurvey && r.Op != opSlots {
		return nil, nil
	}
	i := slices.IndexFunc(drivers, func(d hsm.Driver) bool { _, ok := d.(hsm.Surveyor); return ok })
	if i < 0 {
		return nil, fmt.Errorf("libraries: %w", hsm.ErrUnavailable)
	}
	d := drivers[i].(hsm.Surveyor)
	if r.Op == opSurvey {
		return survey(ctx, d, r.Token.Source, r.Token.URI)
	}
	return l.read(ctx, d, r.Token.URI, r.Token.From)
}

// survey lists the tokens of a library. One that is wanted and not listed is opened
// too: that takes more trouble, as some libraries show only the tokens that were
// there when they were loaded.
func survey(ctx context.Context, d hsm.Surveyor, s hsm.Source, want hsm.URI) (*tokenReply, error) {
	found, err := d.Survey(ctx, s)
	if err != nil {
		return nil, err
	}
	if want.Scheme != "" && len(d.Match(found.Tokens, want)) == 0 {
		want.ModulePath = s.Path
		t, err := d.Open(ctx, want)
		if err == nil {
			info, ierr := t.Info(ctx)
			if err = errors.Join(ierr, t.Close()); err == nil {
				found.Tokens = append(found.Tokens, info)
			}
		}
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	out := &tokenReply{Tokens: found.Tokens}
	for _, p := range found.Problems {
		out.Problems = append(out.Problems, problemReply{p.Source, toFailure(p.Err)})
	}
	return out, fits(out)
}

// fits refuses an answer that is too long to be sent.
func fits(out any) error {
	b, err := json.Marshal(out)
	if err == nil && len(b) > wire.MaxJSON/2 {
		err = fmt.Errorf("%w: its answer is too large (%d bytes)", hsm.ErrModule, len(b))
	}
	return err
}

// read sends the slots of a token from one on.
func (l *lookout) read(ctx context.Context, d hsm.Driver, u hsm.URI, from int) (*tokenReply, error) {
	if from == 0 {
		slots, err := hsm.ReadSlots(ctx, d, u)
		if err != nil {
			return nil, err
		}
		l.slots = nil
		for _, s := range slots {
			packed, err := packSlot(s)
			if err != nil {
				return nil, err
			}
			l.slots = append(l.slots, packed)
		}
	}
	if from < 0 || from > len(l.slots) {
		return nil, fmt.Errorf("%w: slots from %d of %d", wire.ErrFrame, from, len(l.slots))
	}
	out := &tokenReply{Total: len(l.slots)}
	size := 0
	for _, s := range l.slots[from:] {
		b, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if size += len(b); size > partSize && len(out.Slots) > 0 {
			break
		}
		out.Slots = append(out.Slots, s)
	}
	return out, fits(out)
}
