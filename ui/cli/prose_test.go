//go:build unix

package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/present"
)

// narrow is a terminal with so many columns.
func narrow(t *testing.T, columns uint16) *os.File {
	t.Helper()
	ptm, pts, err := pty.Open()
	must.OK(t, err)
	t.Cleanup(func() { _, _ = ptm.Close(), pts.Close() })
	must.OK(t, pty.Setsize(pts, &pty.Winsize{Rows: 24, Cols: columns}))
	return pts
}

// TestNarrowTable: on a narrow terminal a table leaves out minor columns, as many as it must, and says so;
// -o wide, a pipe and a wide terminal show all.
func TestNarrowTable(t *testing.T) {
	heading, minor := []string{"NAME", "ASKED BY", "SIGNER"}, []string{"SIGNER", "ASKED BY"}
	row := []string{"jane-1a2b3c4d", "system:bootstrap:abcdef", "kubernetes.io/kube-apiserver-client"}
	all := "NAME            ASKED BY                  SIGNER\n" + strings.Join(row, "   ") + "\n"
	for what, c := range map[string]struct {
		w    words
		want string
	}{
		"a pipe":      {words{to: &strings.Builder{}}, all},
		"wide enough": {words{to: narrow(t, 120)}, all},
		"-o wide":     {words{to: narrow(t, 60), widens: true, whole: true}, all},
		"narrow":      {words{to: narrow(t, 60)}, "NAME            ASKED BY\njane-1a2b3c4d   system:bootstrap:abcdef\n"},
		"narrow, can say": {words{to: narrow(t, 30), widens: true},
			"NAME\njane-1a2b3c4d\nNot shown: ASKED BY, SIGNER (-o wide shows all).\n"},
		"very narrow": {words{to: narrow(t, 8)}, "NAME:  jane-1a2b3c4d\n"},
	} {
		w := &c.w
		w.table(heading, [][]string{slices.Clone(row)}, minor...)
		if got := w.b.String(); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", what, got, c.want)
		}
	}
}

// TestSectionsBreak: on a narrow terminal the lines of a section break at spaces, but for commands.
func TestSectionsBreak(t *testing.T) {
	w := &words{to: narrow(t, 30)}
	w.sections([]present.Section{{Title: "Rights", Lines: []present.Line{
		{Words: "you may not approve client certificates"},
		{Words: "they may impersonate other people", Level: present.Warn},
		{Words: "run `kubehsm rbac print` as a cluster admin"},
	}}})
	const want = "Rights:\n- you may not approve client\n  certificates\n! they may impersonate other\n  people\n" +
		"- run `kubehsm rbac print` as a cluster admin\n"
	if got := w.b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestProseKeepsItsLabel: where a line is too wide, the label in front of it stays as wide as
// on the lines around it.
func TestProseKeepsItsLabel(t *testing.T) {
	pts := narrow(t, 30)
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
