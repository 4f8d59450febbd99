package flow

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/ui/flow/deeds"
)

// TestHugeDeed: what others wrote does not keep the record from being read.
func TestHugeDeed(t *testing.T) {
	e, _ := testEnv(t)
	if err := deeds.NewLog(&e.Env).Add(t.Context(), deeds.Deed{Action: "revoke", User: "jane", Note: strings.Repeat("\x1b[31mé", 100<<10)}); err != nil {
		t.Fatal(err)
	}
	if err := deeds.NewLog(&e.Env).Add(t.Context(), deeds.Deed{Action: "revoke", User: strings.Repeat("x", deeds.MaxDeed)}); err == nil {
		t.Error("a line was written that cannot be read")
	}
	if past, err := deeds.NewLog(&e.Env).All(); err != nil || len(past) != 1 {
		t.Errorf("%d, %v", len(past), err)
	}
}
