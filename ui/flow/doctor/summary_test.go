package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// TestSummary: ready is only what is enrolled and can sign in.
func TestSummary(t *testing.T) {
	certificate, token := Check{ID: "certificate/prod", State: OK}, Check{ID: "token/x", State: OK}
	of := func(n int) (all []Check) {
		for i := range n {
			all = append(all, Check{ID: fmt.Sprintf("certificate/c%d", i), State: OK})
		}
		return all
	}
	for name, c := range map[string]struct {
		checks []Check
		ready  bool
		words  string
	}{
		"three":             {of(3), true, `ready: "c0", "c1", "c2" can sign in`},
		"many":              {of(300), true, `ready: "c0", "c1" and 298 more can sign in`},
		"nothing enrolled":  {[]Check{token}, false, "nothing is enrolled"},
		"ready":             {[]Check{token, certificate, {ID: "server/prod", State: OK}}, true, `ready: "prod" can sign in`},
		"ready, not online": {[]Check{token, certificate, {ID: "puk/1", State: Warning}}, true, "1 warning"},
		"token away":        {[]Check{certificate, {ID: "absent/prod", State: Warning}}, false, "no enrollment can"},
		"key gone":          {[]Check{certificate, {ID: "key/prod", State: Failed}, {ID: "certificate/dev", State: OK}}, false, "1 problem"},
		"one of two":        {[]Check{certificate, {ID: "certificate/dev", State: OK}, {ID: "absent/prod", State: Warning}}, true, `ready: "dev" can`},
		"failed":            {[]Check{certificate, {ID: "bridge", State: Failed}}, false, "1 problem prevents signing in"},
	} {
		if ready, said := Summary(c.checks); ready != c.ready || !strings.Contains(said.Words, c.words) {
			t.Errorf("%s: %t, %q", name, ready, said.Words)
		}
	}
}

func TestPINStates(t *testing.T) {
	for want, pinState := range map[string]hsm.PINState{
		"PIN blocked": {Retries: -1, Locked: true}, "a token: PIN blocked": {Retries: 0},
		"PIN 1 try left": {Retries: -1, Final: true, Low: true}, "PIN few tries left": {Retries: -1, Low: true},
		"PIN 2 tries left": {Retries: 2, Low: true}, "PIN default, 3 tries left": {Retries: 3, Default: true},
	} {
		c := pin(Check{}, hsm.TokenInfo{Initialized: true, PIN: pinState}, "a token")
		if !strings.Contains(c.Found, want) || c.State == OK || c.Fix == "" {
			t.Errorf("%+v: %+v, want %q", pinState, c, want)
		}
	}
}

// TestBlankTokenIsNamed: the command that sets a blank token up names that one among several
// of its kind, which have neither label nor serial, and is whole.
func TestBlankTokenIsNamed(t *testing.T) {
	one := hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Manufacturer: "M", Model: "A", SlotID: 7}
	other := one
	other.SlotID = 8
	c := pin(Check{}, one, "a token")
	_, quoted, ok := strings.Cut(c.Fix, "kubehsm token init --label NAME --token ")
	u, err := hsm.ParseURI(strings.Trim(quoted, "'"))
	if !ok || err != nil || !u.MatchToken(one) || u.MatchToken(other) {
		t.Errorf("%q: %v", c.Fix, err)
	}
	one.Serial = "12"
	if c := pin(Check{}, one, "a token"); strings.Contains(c.Fix, "slot-id") {
		t.Errorf("%q: slot numbers move", c.Fix)
	}
}

// TestGone: an enrollment whose key is not on its token any more is a failure with the command that
// makes a new one; one whose key is there, or on another token, is none.
func TestGone(t *testing.T) {
	card := hsm.TokenInfo{Scheme: hsm.SchemePIV, Serial: "7", Initialized: true}
	en := enrollment.Enrollment{Name: "prod", Context: "home", User: "jane", Key: card.URI(), KeyHash: "00"}
	en.Key.Slot = "9a"
	away := en
	away.Name, away.Key.Serial = "away", "8"
	checks := gone(hsm.View{Info: card}, []enrollment.Enrollment{en, away})
	if len(checks) != 1 || checks[0].ID != "key/prod" || checks[0].State != Failed ||
		checks[0].Fix != "kubehsm enroll --name prod --restart --context home --user jane" {
		t.Errorf("%+v", checks)
	}
}
