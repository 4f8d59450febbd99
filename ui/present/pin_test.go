package present

import (
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

func TestPINWords(t *testing.T) {
	for want, c := range map[string]struct {
		pin     hsm.PINState
		details *hsm.Tries
	}{
		"set":                             {hsm.PINState{Retries: -1}, nil},
		"not set":                         {hsm.PINState{NotSet: true}, nil},
		"not needed":                      {hsm.PINState{NotNeeded: true}, nil},
		"blocked":                         {hsm.PINState{Retries: 0, Default: true, PINPad: true}, nil},
		"3 tries left":                    {hsm.PINState{Retries: 3}, nil},
		"default, 3 tries left":           {hsm.PINState{Retries: 3, Default: true}, nil},
		"default, few tries left":         {hsm.PINState{Retries: -1, Default: true, Low: true}, nil},
		"typed on the reader":             {hsm.PINState{Retries: -1, PINPad: true}, nil},
		"default, 2 of 3 tries left":      {hsm.PINState{Retries: 2}, &hsm.Tries{Left: 2, Total: 3, Default: true}},
		"1 of 3 tries left":               {hsm.PINState{Retries: 1, Final: true}, &hsm.Tries{Left: 1, Total: 3}},
		"typed on the reader, 1 try left": {hsm.PINState{Retries: -1, PINPad: true, Final: true}, nil},
	} {
		var d *hsm.Details
		if c.details != nil {
			d = &hsm.Details{PIN: c.details}
		}
		if got := PINWords(hsm.TokenInfo{Initialized: true, PIN: c.pin}, d); got != want {
			t.Errorf("%+v, %+v: %q, want %q", c.pin, c.details, got, want)
		}
	}
	if got := PINWords(hsm.TokenInfo{}, nil); got != "not initialized" {
		t.Errorf("a blank token: %q", got)
	}
	for want, tries := range map[string]*hsm.Tries{"": nil, "blocked": {Default: true},
		"default, 1 try left": {Left: 1, Default: true}, "2 of 5 tries left": {Left: 2, Total: 5}} {
		if got := triesOf(tries); got != want {
			t.Errorf("%+v: %q, want %q", tries, got, want)
		}
	}
}
