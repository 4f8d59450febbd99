package question

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Room is how much of a screen a prompt may take; 0 is unknown.
type Room struct {
	Columns, Rows int
	// All says how to see what has no room; "" names `kubehsm agent status`.
	All string
}

func (r Room) orUsual() Room {
	if r.Columns <= 0 {
		r.Columns = usualColumns
	}
	if r.Rows <= 0 {
		r.Rows = usualRows
	}
	r.All = cmp.Or(r.All, "`kubehsm agent status` shows all")
	return r
}

// WindowRoom is the room in a window whose size nobody knows.
var WindowRoom = Room{Columns: 64, Rows: 18}

// What is assumed of a screen, and what is the least that fields are laid out for.
const (
	usualColumns, usualRows = 80, 24
	leastColumns            = 30
	maxFields               = 16
	maxValues               = 64
	maxLabel                = 12   // columns
	maxValue                = 1024 // bytes
	hang                    = 2    // columns that further lines of a value are indented by
	tail                    = 30   // columns at a value's end that stay when its middle is cut
)

// Fields returns the lines that show fields in room: each label at the beginning of a
// line, each value behind the labels, and what follows of a value on further lines, which
// are indented more than any value. So no value can pass for another one, or for a field.
// Where there is no room for all, the middle of long values and the last values of a field are
// left out, then the last fields, and "…" says so.
func Fields(fields []hsm.Field, room Room) []string {
	room = room.orUsual()
	s := newSheet(fields, room, 1, 2, 3)
	s.fit(room.Rows)
	return s.draw()
}

// All returns the lines of fields with nothing left out; columns may be 0, unknown.
func All(fields []hsm.Field, columns int) []string {
	return newSheet(fields, Room{Columns: columns}.orUsual(), maxValue).draw()
}

// newSheet lays fields out, each value in at most so many lines, for each of these numbers.
func newSheet(fields []hsm.Field, room Room, most ...int) *sheet {
	s := &sheet{width: max(room.Columns-1, leastColumns), all: room.All}
	for _, f := range fields[:min(len(fields), maxFields)] {
		b := box{label: text.Truncate(text.Clean(f.Label), maxLabel), minor: f.Minor, lines: len(most)}
		s.indent = max(s.indent, text.Width(b.label)+2)
		s.boxes = append(s.boxes, b)
	}
	for i := range s.boxes {
		b, values := &s.boxes[i], fields[i].Values
		for _, v := range values[:min(len(values), maxValues)] {
			if len(v) > maxValue { // the request comes from another program
				v = v[:maxValue] + text.Ellipsis
			}
			v = text.Clean(v)
			ways := make(value, len(most))
			for i, n := range most {
				ways[i] = s.wrap(v, n)
			}
			b.values = append(b.values, ways)
		}
		b.shown, b.all = len(b.values), len(values)
	}
	return s
}

// sheet are fields on their way to lines.
type sheet struct {
	width, indent int
	boxes         []box
	dropped       int    // number of fields left out
	all           string // hint that says how to see the rest
}

// box is a field: of its values the first ones are shown, each in so many lines at most.
type box struct {
	label             string
	minor             bool
	values            []value
	shown, all, lines int
}

// value are the lines of a value where it may take one, two, or three of them, or as many
// as it needs.
type value [][]string

// rows is how many lines the field takes.
func (b *box) rows() int {
	n := 0
	for _, v := range b.values[:b.shown] {
		n += len(v[b.lines-1])
	}
	if b.all > b.shown {
		n++
	}
	return n
}

// fit leaves out what there is no room for: what there is much of, then minor fields, what
// is long, and the last fields.
func (s *sheet) fit(rows int) {
	over := -rows
	for i := range s.boxes {
		over += s.boxes[i].rows()
	}
	change := func(b *box, what *int) {
		before := b.rows()
		*what--
		over += b.rows() - before
	}
	drop := func(at int) {
		if s.dropped == 0 {
			over++ // the line that says so
		}
		over -= s.boxes[at].rows()
		s.boxes = slices.Delete(s.boxes, at, at+1)
		s.dropped++
	}
	for _, least := range []struct{ lines, shown int }{{2, 4}, {1, 2}, {1, 1}} {
		for at := len(s.boxes) - 1; over > 0 && at > 0 && least.lines == 1; at-- {
			if s.boxes[at].minor {
				drop(at)
			}
		}
		for i := range s.boxes {
			for b := &s.boxes[i]; over > 0 && b.shown > least.shown; {
				change(b, &b.shown)
			}
		}
		for i := range s.boxes {
			for b := &s.boxes[i]; over > 0 && b.lines > least.lines; {
				change(b, &b.lines)
			}
		}
	}
	for over > 0 && len(s.boxes) > 1 {
		drop(len(s.boxes) - 1)
	}
}

func (s *sheet) draw() []string {
	var lines []string
	more := func(n, width int) string {
		return text.Truncate(fmt.Sprintf("%s %d more: %s", text.Ellipsis, n, s.all), width)
	}
	for _, b := range s.boxes {
		label := text.Pad(b.label, s.indent)
		add := func(line string) {
			lines = append(lines, label+line)
			label = strings.Repeat(" ", s.indent)
		}
		for _, v := range b.values[:b.shown] {
			for i, part := range v[b.lines-1] {
				if i > 0 {
					part = strings.Repeat(" ", hang) + part
				}
				add(part)
			}
		}
		if left := b.all - b.shown; left > 0 {
			add(more(left, s.width-s.indent))
		}
	}
	if s.dropped > 0 {
		lines = append(lines, more(s.dropped, s.width))
	}
	return lines
}

// wrap breaks a value into at most n lines, all but the first shorter by the indent. Of one
// that is longer the middle is left out, and more of it the more the breaks at spaces take.
func (s *sheet) wrap(v string, n int) []string {
	w := max(s.width-s.indent, leastColumns/2)
	for room := w + (n-1)*(w-hang); ; room-- {
		short := v
		if text.Width(v) > room {
			short = shorten(v, room)
		}
		if lines, all := broken(short, w, n); all || room <= 1 {
			return lines
		}
	}
}

// broken breaks v into at most n lines, at spaces where they are near a line's end. It tells
// whether v has room in them; if not, the last line is cut.
func broken(v string, w, n int) (lines []string, all bool) {
	for len(lines)+1 < n && text.Width(v) > w {
		part := text.Beginning(v, w)
		if at := strings.LastIndexByte(part, ' '); at > len(part)*2/3 {
			part = part[:at+1]
		}
		if lines, v = append(lines, strings.TrimRight(part, " ")), v[len(part):]; len(lines) == 1 {
			w -= hang
		}
	}
	return append(lines, text.Truncate(v, w)), text.Width(v) <= w
}

// shorten leaves out the middle of v: its end may say what is odd about it.
func shorten(v string, width int) string {
	if width < tail+8 {
		return text.Truncate(v, width)
	}
	at := len(v)
	for left := tail; ; {
		r, size := utf8.DecodeLastRuneInString(v[:at])
		if left -= text.Width(string(r)); left < 0 {
			break
		}
		at -= size
	}
	return text.Beginning(v, width-tail-1) + text.Ellipsis + v[at:]
}
