package widget

import (
	"strings"

	"charm.land/bubbles/v2/key"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Column is one of a list.
type Column struct {
	Title string
	// Width in columns of the terminal; 0 shares what is left.
	Width int
	// From is the list's width from which on it is shown.
	From int
}

// Cell is a clean text and how it looks while its row is not selected.
type Cell struct {
	Text  string
	Style theme.Style
}

// List is a list with columns, a cursor and a filter. It draws only the rows in
// view, however many there are.
//
// The list of bubbles turns pages, has no columns, and filters by likeness: the
// first rows are those that match best, not those that come first. Its table has no
// filter, forgets the selected row when rows before it come or go, and draws twice
// the rows in view through lipgloss: 7 ms a key press at 120 by 40, where all of a
// frame takes less than 1 ms here.
type List[T any] struct {
	Columns []Column
	// Key tells rows apart: the selected one stays so when others come and go.
	Key func(T) string
	// Words is what the filter looks at.
	Words func(T) string
	// Cells are a row's, as many as there are columns.
	Cells func(T) []Cell

	Filter Filter
	items  []T
	words  []string // the items' text in lower case; made when a filter needs it
	shown  []int    // indexes of the items that the filter leaves
	nav    Nav
	chosen string
	height int
}

// Set replaces the items.
func (l *List[T]) Set(items []T) {
	l.items, l.words = items, nil
	l.rebuild()
}

// Len is how many items there are, whatever the filter leaves.
func (l *List[T]) Len() int { return len(l.items) }

// Shown is how many the filter leaves.
func (l *List[T]) Shown() int { return len(l.shown) }

func (l *List[T]) rebuild() {
	l.shown = l.shown[:0]
	all, match := !l.Filter.Active(), l.Filter.Matcher()
	if !all && l.words == nil {
		l.words = make([]string, len(l.items))
		for i, it := range l.items {
			l.words[i] = strings.ToLower(l.Words(it))
		}
	}
	for i := range l.items {
		if all || match(l.words[i]) {
			l.shown = append(l.shown, i)
		}
	}
	if l.chosen != "" {
		for n, i := range l.shown {
			if l.Key(l.items[i]) == l.chosen {
				l.nav.Index = n
				break
			}
		}
	}
	l.nav.Clamp(len(l.shown))
}

// Select puts the cursor on the item called key, now or when it comes.
func (l *List[T]) Select(key string) {
	l.chosen = key
	l.rebuild()
}

// Selected returns the item under the cursor.
func (l *List[T]) Selected() (it T, ok bool) {
	if l.nav.Index >= len(l.shown) {
		return it, false
	}
	return l.items[l.shown[l.nav.Index]], true
}

// Update moves and filters. It reports whether msg was its own.
func (l *List[T]) Update(msg tea.Msg, m keys.Map) bool {
	if l.Filter.Update(msg) {
		l.rebuild()
		return true
	}
	if l.nav.Click(msg, len(l.shown)) {
		l.remember()
		return true
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
		return false
	case l.nav.Update(k, m, len(l.shown), l.height):
		l.remember()
		return true
	case key.Matches(k, m.Filter):
		l.Filter.Open()
		return true
	case key.Matches(k, m.Back) && l.Filter.Active():
		l.Filter.Clear()
		l.rebuild()
		return true
	}
	return false
}

func (l *List[T]) remember() {
	if it, ok := l.Selected(); ok {
		l.chosen = l.Key(it)
	}
}

// View draws the filter, the headings and the rows in view, w by h.
func (l *List[T]) View(t theme.Theme, w, h int) string {
	var lines []string
	if l.Filter.Active() {
		lines = append(lines, l.Filter.View(t, w))
	}
	columns := l.widths(w)
	titles := make([]string, len(l.Columns))
	for i, c := range l.Columns {
		titles[i] = c.Title
	}
	lines = append(lines, "  "+t.Faint.Render(strings.TrimRight(row(columns, titles), " ")))
	l.height = max(h-len(lines), 1)
	if len(l.shown) == 0 && len(l.items) > 0 {
		lines = append(lines, t.Muted.Render("  Nothing matches."))
	}
	from, to := l.nav.Window(len(l.shown), l.height)
	for n := from; n < to; n++ {
		lines = append(lines, l.line(t, columns, n, w))
	}
	return Block(strings.Join(lines, "\n"), w, h)
}

func (l *List[T]) line(t theme.Theme, columns []int, n, w int) string {
	cells := l.Cells(l.items[l.shown[n]])
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = c.Text
	}
	if n == l.nav.Index {
		return Row(n, t.Accent.Render(t.Glyphs.Mark)+" "+t.Selected.Render(Fit(row(columns, texts), w-2)))
	}
	for i, c := range cells {
		if columns[i] > 0 {
			texts[i] = c.Style.Render(Cut(c.Text, columns[i]))
		}
	}
	return Row(n, "  "+row(columns, texts))
}

func row(columns []int, texts []string) string {
	var b strings.Builder
	for i, w := range columns {
		if w > 0 {
			b.WriteString(Fit(texts[i], w))
			b.WriteString("  ")
		}
	}
	return b.String()
}

func (l *List[T]) widths(w int) []int {
	out := make([]int, len(l.Columns))
	rest, share := w-2, 0
	for i, c := range l.Columns {
		if w < c.From {
			continue
		}
		if rest -= 2; c.Width == 0 {
			share++
			continue
		}
		out[i] = c.Width
		rest -= c.Width
	}
	for i, c := range l.Columns {
		if w >= c.From && c.Width == 0 {
			out[i] = max(rest/share, 4)
			rest -= rest / share
			share--
		}
	}
	return out
}
