//go:build linux && cgo

package adversary

import (
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/test/vcard"
)

// attack is one way to get what the person has not allowed.
type attack struct {
	name string
	// touch: with a card whose key needs a touch for each use; else with SoftHSM, where a
	// question is answered on the terminal.
	touch bool
	run   func(*stage)
}

var attacks = slices.Concat(identityAttacks, processAttacks, questionAttacks, requestAttacks, policyAttacks,
	lockAttacks, impostorAttacks, touchAttacks)

// TestAttacks makes every attack on the program as it is.
func TestAttacks(t *testing.T) {
	for _, touch := range []bool{false, true} {
		name := "SoftHSM"
		if touch {
			name = "touch"
		}
		t.Run(name, func(t *testing.T) {
			var readers *vcard.Lab
			if touch {
				readers = vcard.ForTest(t)
			}
			r := newRig(t, suite.binary, readers)
			for _, a := range attacks {
				if a.touch == touch {
					t.Run(a.name, func(t *testing.T) { r.attacked(t, a).tell(t) })
				}
			}
		})
	}
}

// attacked makes an attack, beside which kubectl works.
func (r *rig) attacked(t *testing.T, a attack) *trial {
	t.Helper()
	return try(t, func(v *trial) {
		s := r.stage(v, a.name)
		a.run(s)
		s.honest()
	})
}
