package requests

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// TestAttestationWarns by the verdict, whatever the words for it are.
func TestAttestationWarns(t *testing.T) {
	plain := theme.New(theme.Options{Profile: colorprofile.ASCII})
	for _, c := range []struct {
		words    string
		attested bool
	}{{"verified, says the requester", false}, {"geprüft", true}, {"", false}} {
		l := &look{view: request.View{Attestation: c.words, Attested: c.attested}}
		text := ansi.Strip(strings.Join(l.body(plain, 80, time.Now()), "\n"))
		_, lives, _ := strings.Cut(text, "Where the key is\n")
		lives, _, _ = strings.Cut(lives, "\n")
		if !strings.Contains(lives, c.words) || strings.HasPrefix(lives, plain.Glyphs.Warn) == c.attested {
			t.Errorf("%q, attested %t: %q", c.words, c.attested, lives)
		}
	}
}
