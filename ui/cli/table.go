package cli

import (
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
)

func (w *words) listed(t present.Table) {
	if len(t.Rows) == 0 {
		return
	}
	rows := make([][]string, len(t.Rows))
	for i, r := range t.Rows {
		for _, c := range r {
			rows[i] = append(rows[i], marked(c.Words, c.Level))
		}
	}
	w.table(t.Heading, rows, t.Minor...)
}

func marked(s string, l present.Level) string {
	if s != "" && l >= present.Warn {
		return "! " + s
	}
	return s
}

// cellEnough is the width at which a cell is broken before another column is left out.
const cellEnough = 24

// fitting are the columns that a table shows. On a narrow terminal columns of minor are left out,
// the first one first. Minor may name columns that this table lacks.
func (w *words) fitting(heading []string, widths []int, minor []string) (shown []int) {
	total := 0
	for i, n := range widths {
		shown = append(shown, i)
		total += min(n, cellEnough) + between
	}
	columns := w.columns()
	for _, name := range minor {
		if columns == 0 || total-between <= columns {
			break
		}
		i := slices.Index(heading, name)
		if i < 0 {
			continue
		}
		total -= min(widths[i], cellEnough) + between
		shown = slices.DeleteFunc(shown, func(k int) bool { return k == i })
	}
	return shown
}

func (w *words) leftOut(heading []string, shown []int) {
	var names []string
	for i, name := range heading {
		if !slices.Contains(shown, i) {
			names = append(names, name)
		}
	}
	if len(names) > 0 && w.widens {
		w.line("Not shown: %s (-o wide shows all).", strings.Join(names, ", "))
	}
}

func only[T any](row []T, shown []int) []T {
	cells := make([]T, len(shown))
	for k, i := range shown {
		cells[k] = row[i]
	}
	return cells
}

// table adds aligned rows. On a narrow terminal columns of minor are left out; if that is not
// enough, each row becomes lines of "HEADING: value".
func (w *words) table(heading []string, rows [][]string, minor ...string) {
	all := append([][]string{heading}, rows...)
	widths := make([]int, len(heading))
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], text.Width(text.Clean(cell)))
		}
	}
	shown := w.fitting(heading, widths, minor)
	defer w.leftOut(heading, shown)
	if len(shown) < len(heading) {
		for i, row := range all {
			all[i] = only(row, shown)
		}
		heading, rows = all[0], all[1:]
	}
	if _, fits := w.widths(all); fits {
		w.rows(all)
		return
	}
	for i, row := range rows {
		if i > 0 {
			w.line("")
		}
		pairs := make([]string, 0, 2*len(row))
		for k, cell := range row {
			pairs = append(pairs, heading[k], cell)
		}
		w.fields(pairs...)
	}
}

func (w *words) rows(all [][]string) {
	widths, fits := w.widths(all)
	cells, line, total := make([][]string, len(widths)), make([]string, len(widths)), 0
	for _, n := range widths {
		total += n + between
	}
	w.b.Grow(len(all) * total)
	for _, row := range all {
		lines := 1
		for i, cell := range row {
			cells[i] = append(cells[i][:0], text.Clean(cell))
			if fits && text.Width(cells[i][0]) > widths[i] {
				cells[i] = text.Wrap(cells[i][0], widths[i])
			}
			lines = max(lines, len(cells[i]))
		}
		for n := range lines {
			clear(line)
			for i, c := range cells[:len(row)] {
				if n < len(c) {
					line[i] = c[n]
				}
			}
			w.aligned(line[:len(row)], widths)
		}
	}
}

const between = 3

// widths also reports whether the rows fit on the terminal without breaking a word.
func (w *words) widths(all [][]string) (widths []int, fits bool) {
	if len(all) == 0 {
		return nil, true
	}
	widths, least := make([]int, len(all[0])), make([]int, len(all[0]))
	for _, row := range all {
		for i, cell := range row {
			cell = text.Clean(cell)
			widths[i], least[i] = max(widths[i], text.Width(cell)), max(least[i], widestWord(cell))
		}
	}
	columns, total := w.columns(), (len(widths)-1)*between
	for _, n := range widths {
		total += n
	}
	narrow := slices.Clone(widths)
	for ; columns > 0 && total > columns; total-- {
		widest := -1 // index among the columns that can be narrower
		for i, n := range narrow {
			if n > least[i] && (widest < 0 || n > narrow[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		narrow[widest]--
	}
	return narrow, true
}

func (w *words) aligned(row []string, widths []int) {
	gap := 0 // before the next cell that is not empty
	for i, cell := range row {
		if cell != "" {
			for range gap {
				w.b.WriteByte(' ')
			}
			w.b.WriteString(cell)
			gap = 0
		}
		gap += widths[i] - text.Width(cell) + between
	}
	w.b.WriteByte('\n')
}
