package present

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/ui/flow/renewals"
)

// Who cannot renew is one line, however many they are and whatever their names contain.
func TestBarred(t *testing.T) {
	if s := Barred(renewals.Barred{}); s != nil {
		t.Errorf("all may: %+v", s)
	}
	if s := Barred(renewals.Barred{Unasked: 3}); len(s) != 1 || s[0].Lines[0].Level != Warn ||
		!strings.Contains(s[0].Lines[0].Words, "3 tokens not looked at") {
		t.Errorf("nobody was asked about: %+v", s)
	}
	for want, b := range map[string]renewals.Barred{
		"may not file requests: group dev":                          {Groups: []string{"dev"}},
		"may not file requests: group dev, user jane":               {Groups: []string{"dev"}, Users: []string{"jane"}},
		"may not file requests: group a, group b, group c, 2 more":  {Groups: []string{"a", "b", "c", "d"}, Users: []string{"e"}},
		"may not file requests: user a\\nb (1 token not looked at)": {Users: []string{"a\nb"}, Unasked: 1},
	} {
		s := Barred(b)
		if len(s) != 1 || len(s[0].Lines) != 1 || s[0].Lines[0].Words != want || s[0].Lines[0].Level != Bad {
			t.Errorf("%+v: %+v, want %q", b, s, want)
		}
	}
}
