//go:build cgo

package pkcs11

import (
	"context"
	"fmt"
	"slices"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// list reads the slots in a scope.
func list(ctx context.Context, d *device, in scope) (entries []*entry, slots []hsm.Slot, err error) {
	err = d.reading(ctx, func(sh p11.SessionHandle) error {
		r := d.module.reader(sh)
		visible := d.usable()
		entries = r.entries(in, visible)
		slots = make([]hsm.Slot, 0, len(entries))
		for _, e := range entries {
			slots = append(slots, e.slot(d.info, visible))
		}
		if len(entries) == 0 && r.err == nil {
			r.err = there(d.module, d.slot)
		}
		return r.err
	})
	if err != nil {
		return nil, nil, fault("list the keys", err)
	}
	return entries, slots, nil
}

// keyAt is [lookup] for the key alone: with an id, only that one's objects
// are read.
func keyAt(ctx context.Context, d *device, u hsm.URI) (*entry, hsm.Slot, error) {
	if len(u.ID) > 0 {
		if e, slot, err := pick(ctx, d, u, scope{id: u.ID, keys: true}); err == nil && slot.Key != nil {
			return e, slot, nil
		}
	}
	return lookup(ctx, d, u)
}

// lookup finds the one slot that u names among all.
func lookup(ctx context.Context, d *device, u hsm.URI) (*entry, hsm.Slot, error) {
	return pick(ctx, d, u, scope{})
}

// pick finds the one slot in a scope that u names. A slot with a key goes before
// others, and where an id is given but no label fits, the id decides: some
// libraries change labels with the certificate.
func pick(ctx context.Context, d *device, u hsm.URI, in scope) (*entry, hsm.Slot, error) {
	entries, slots, err := list(ctx, d, in)
	if err != nil {
		return nil, hsm.Slot{}, err
	}
	fit := func(u hsm.URI) (found []int) {
		for i, s := range slots {
			if u.MatchSlot(s) {
				found = append(found, i)
			}
		}
		keys := slices.DeleteFunc(slices.Clone(found), func(i int) bool { return slots[i].Key == nil })
		if len(keys) > 0 {
			return keys
		}
		return found
	}
	found := fit(u)
	if len(found) == 0 && len(u.ID) > 0 {
		byID := u
		byID.Object = ""
		found = fit(byID)
	}
	switch len(found) {
	case 1:
		return entries[found[0]], slots[found[0]], nil
	case 0:
		hint := "`kubehsm key list` names those that are there"
		if !d.unlockedNow() {
			hint = "the token is locked and may hide keys until its PIN is given"
		}
		return nil, hsm.Slot{}, hinting.With(fmt.Errorf("%s: %w", u, hsm.ErrNoKey), hint)
	}
	several := make([]hsm.Slot, len(found))
	for i, at := range found {
		several[i] = slots[at]
	}
	return nil, hsm.Slot{}, hinting.With(fmt.Errorf("%s: %w", u, hsm.ErrSeveralKeys), apart(several))
}

// apart is how to name one of several slots.
func apart(several []hsm.Slot) string {
	// alone is the first slot with a name that no other has; an empty one names all.
	alone := func(name func(hsm.Slot) string) (uri string, ok bool) {
		count := map[string]int{}
		for _, s := range several {
			count[name(s)]++
		}
		i := slices.IndexFunc(several, func(s hsm.Slot) bool { return name(s) != "" && count[name(s)] == 1 })
		if i < 0 {
			return "", false
		}
		return "'" + several[i].URI.Identity().String() + "'", true // quotes for a shell, which ends a command at a ;
	}
	byLabel, label := alone(func(s hsm.Slot) string { return s.Label })
	byID, id := alone(func(s hsm.Slot) string { return s.ID })
	switch {
	case label && id:
		return "name one by its label or id, as " + byLabel
	case label:
		return "they share an id: name one by its label too, as " + byLabel
	case id:
		return "name one by its id, as " + byID
	}
	return "label and id do not tell them apart: rename or delete one with the tool that made it"
}
