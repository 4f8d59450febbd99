package dialog

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/colorprofile"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// TestTouchWords: a finger on the token and one on the reader's keys are different
// things to ask for.
func TestTouchWords(t *testing.T) {
	f := screen.Frame{Width: 60, Height: 15, Theme: theme.New(theme.Options{Profile: colorprofile.ASCII}),
		Now: time.Unix(1e9, 0)}
	for pad, want := range map[hsm.PINKind][2]string{
		"":          {"Touch lab", "Waiting for your touch"},
		hsm.UserPIN: {"PIN of lab", "Type it on the reader"},
	} {
		d := &Touch{prompt: hsm.TouchPrompt{Token: hsm.TokenInfo{Label: "lab"}, Pad: pad}}
		d.Open(f.Now)
		if d.Title() != want[0] || !strings.Contains(d.View(f), want[1]) {
			t.Errorf("%q: %s\n%s", pad, d.Title(), d.View(f))
		}
	}
}
