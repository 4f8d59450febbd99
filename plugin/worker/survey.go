//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// slotReader sends what is on a token, a part at a time.
type slotReader struct {
	slots []*slotReply // slots of the token that was read last
}

// partSize is how much of the slots of a token is sent at a time, in bytes.
const partSize = wire.MaxJSON / 4

// surveyor is the driver that has the source.
func surveyor(drivers hsm.Drivers, s hsm.Source) (hsm.Surveyor, error) {
	for _, d := range drivers {
		if found, ok := d.(hsm.Surveyor); ok && d.Scheme() == s.Scheme {
			return found, nil
		}
	}
	return nil, fmt.Errorf("tokens of the kind %q: %w", s.Scheme, hsm.ErrUnavailable)
}

// survey lists the tokens of a source. One that is wanted and not listed is opened
// too: that takes more trouble, as some libraries show only the tokens that were
// there when they were loaded.
func survey(ctx context.Context, a asked) (out results, err error) {
	d, err := surveyor(a.session.worker.drivers, a.Source)
	if err != nil {
		return out, err
	}
	found, err := d.Survey(ctx, a.Source)
	if err != nil {
		return out, err
	}
	want := a.URI
	if want.Scheme != "" && len(d.Match(found.Tokens, want)) == 0 {
		want.ModulePath = a.Source.Path
		t, err := d.Open(ctx, want)
		if err == nil {
			info, ierr := t.Info(ctx)
			if err = errors.Join(ierr, t.Close()); err == nil {
				found.Tokens = append(found.Tokens, info)
			}
		}
		if err != nil && ctx.Err() != nil {
			return out, ctx.Err()
		}
	}
	if out.Tokens = found.Tokens; want.Scheme != "" {
		out.Tokens = d.Match(found.Tokens, a.URI)
	}
	if p := cut(&out); p != nil {
		found.Problems = append(found.Problems, *p)
	}
	for _, p := range found.Problems {
		out.Problems = append(out.Problems, problemReply{p.Source, link.Codes(nil).Failure(p.Err)})
	}
	return out, fits(out)
}

// surveySize is how much of an answer may be tokens, in bytes. The rest is for problems.
const surveySize = wire.MaxJSON / 4

// cut leaves out the tokens for which there is no room in the answer, and says so. A token
// that a URI names has room.
func cut(out *results) *hsm.Problem {
	size := 0
	for i, t := range out.Tokens {
		b, err := json.Marshal(t)
		if size += len(b); err == nil && size <= surveySize {
			continue
		}
		left := out.Tokens[i:]
		out.Tokens = out.Tokens[:i]
		source := ""
		if t.Module != nil {
			source = t.Module.Path
		}
		return &hsm.Problem{Source: source, Err: hint.With(
			fmt.Errorf("%w: it has %d tokens too many to list; the first left out is %s", hsm.ErrModule, len(left), t.Name()),
			"name a token that is not listed by its URI")}
	}
	return nil
}

// mostSent is how long an answer may be, in bytes: a frame, but for what an answer has around it.
const mostSent = wire.MaxJSON - 4<<10

// fits refuses an answer that is too long to be sent.
func fits(out any) error {
	b, err := json.Marshal(out)
	if err == nil && len(b) > mostSent {
		err = fmt.Errorf("%w: its answer is too large (%d bytes)", hsm.ErrModule, len(b))
	}
	return err
}

// slotsFrom sends the slots of a token from one on.
func (l *slotReader) slotsFrom(ctx context.Context, a asked) (out results, err error) {
	if a.From == 0 {
		if err := l.read(ctx, a.token, a.All, a.person); err != nil {
			return out, err
		}
	}
	if a.From < 0 || a.From > len(l.slots) {
		return out, fmt.Errorf("%w: slots from %d of %d", wire.ErrFrame, a.From, len(l.slots))
	}
	out.Total = len(l.slots)
	size := 0
	for _, s := range l.slots[a.From:] {
		b, err := json.Marshal(s)
		if err != nil {
			return out, err
		}
		if size += len(b); size > partSize && len(out.Slots) > 0 {
			break
		}
		out.Slots = append(out.Slots, s)
	}
	return out, fits(out)
}

// read reads the slots of a token.
func (l *slotReader) read(ctx context.Context, t hsm.Token, all bool, p hsm.Prompter) (err error) {
	var slots []hsm.Slot
	if all {
		slots, err = t.AllSlots(ctx)
	} else {
		slots, err = t.Slots(ctx, p)
	}
	if err != nil {
		return err
	}
	l.slots = nil
	for _, s := range slots {
		packed, err := packSlot(s)
		if err != nil {
			return err
		}
		l.slots = append(l.slots, split(packed)...)
	}
	return nil
}

// split has no more older certificates in a reply than fit into a part of an answer: the others
// follow in replies of their own, which [joined] puts together again.
func split(r *slotReply) []*slotReply {
	older, size := r.Older, 0
	r.Older = nil
	parts := []*slotReply{r}
	for _, der := range older {
		last := parts[len(parts)-1]
		if size += len(der); size > partSize/2 && len(last.Older) > 0 {
			last, size = &slotReply{Slot: hsm.Slot{URI: r.URI}, More: true}, len(der)
			parts = append(parts, last)
		}
		last.Older = append(last.Older, der)
	}
	return parts
}

// joined appends the slots in replies to all.
func joined(all []hsm.Slot, replies []*slotReply) ([]hsm.Slot, error) {
	for _, r := range replies {
		s, err := r.unpack()
		switch {
		case err != nil:
			return nil, err
		case !r.More:
			all = append(all, s)
		case len(all) == 0:
			return nil, fmt.Errorf("%w: the rest of no slot", wire.ErrFrame)
		default:
			last := &all[len(all)-1]
			last.Older = append(last.Older, s.Older...)
		}
	}
	return all, nil
}
