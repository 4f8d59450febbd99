//go:build unix

package cli

import (
	"testing"

	"github.com/creack/pty"
)

// TestProseKeepsItsLabel: where a line is too wide, the label in front of it stays as wide as
// on the lines around it.
func TestProseKeepsItsLabel(t *testing.T) {
	ptm, pts, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = ptm.Close(), pts.Close() }()
	if err := pty.Setsize(pts, &pty.Winsize{Rows: 24, Cols: 30}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		indent int
		in     string
		want   string
	}{
		{6, "now:  all but reading needs your yes", "now:  all but reading needs\n      your yes\n"},
		{6, "      all but reading needs your yes", "      all but reading needs\n      your yes\n"},
		{0, "all but reading needs your yes, always", "all but reading needs your\nyes, always\n"},
		{6, "now:  writes", "now:  writes\n"},
	} {
		w := &words{to: pts}
		w.prose(c.indent, c.in)
		if got := w.b.String(); got != c.want {
			t.Errorf("%q, %d: got %q, want %q", c.in, c.indent, got, c.want)
		}
	}
}
