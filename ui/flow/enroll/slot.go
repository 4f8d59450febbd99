package enroll

import (
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// spareSlot is the first free place for a further key on a card. [hsm.ErrOccupied] if there is none.
func spareSlot(kind hsm.Kind, slots []hsm.Slot) (string, error) {
	for _, id := range kind.Spare {
		if !slices.ContainsFunc(
			slots,
			func(s hsm.Slot) bool { return s.ID == id && (s.Key != nil || s.Certificate != nil) },
		) {
			return id, nil
		}
	}
	return "", hint.With(fmt.Errorf("every retired slot of the token is taken: %w", hsm.ErrOccupied),
		"name one with --slot, or delete a key: `kubehsm key delete`")
}
