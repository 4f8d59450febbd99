//go:build cgo

package hardware

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// subject returns the token and, for PIV, three retired slots that are empty.
func subject(t *testing.T, d hsm.Driver, u hsm.URI) (hsm.TokenInfo, []string) {
	t.Helper()
	tok, err := d.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	info, err := tok.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme != hsm.SchemePIV {
		return info, nil
	}
	all, err := tok.Slots(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for _, s := range all {
		taken[s.ID] = taken[s.ID] || occupied(s)
	}
	var free []string
	for n := 0x95; n >= 0x82 && len(free) < 3; n-- {
		if id := fmt.Sprintf("%x", n); !taken[id] {
			free = append(free, id)
		}
	}
	if len(free) < 3 {
		t.Fatalf("only %d retired slots are empty, three are needed", len(free))
	}
	return info, free
}

// check runs the suite behind the guard.
func check(t *testing.T, d hsm.Driver, info hsm.TokenInfo, slots []string, algorithms []hsm.Algorithm,
	pin, management string) hsmtest.Results {
	g := newGuard(d, slots)
	others := map[hsm.PINKind]string{}
	if management != "" {
		others[hsm.ManagementKey] = management
	}
	secrets := map[hsm.PINKind]string{hsm.UserPIN: pin, hsm.PIVPIN: pin, hsm.ManagementKey: management}
	return hsmtest.Run(t, hsmtest.Fixture{
		Algorithms: algorithms, NoGuessing: true, NoDelete: info.Scheme == hsm.SchemePIV && !deletes(info.Firmware),
		New: func(t *testing.T) hsmtest.Device {
			t.Cleanup(func() {
				if err := g.clean(context.Background(), info.URI(), hsmtest.TypingAll(t, secrets)); err != nil {
					t.Errorf("remove the keys of this check: %v", err)
				}
			})
			tok, err := d.Open(t.Context(), info.URI())
			if err != nil {
				t.Fatal(err)
			}
			defer tok.Close()
			if err := tok.Lock(); err != nil {
				t.Fatal(err)
			}
			return hsmtest.Device{Driver: g, Token: info.URI(), PIN: pin, WrongPIN: "", Others: others, Slots: slots}
		},
	})
}

// deletes tells whether a YubiKey's firmware can delete keys: 5.7 and later.
func deletes(firmware string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(firmware, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 7
}

func listed(slots []string) string { return strings.Join(slots, ", ") }
