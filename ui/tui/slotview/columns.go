// Package slotview draws a token's slots, in a list and in detail, for the
// screens that show them.
package slotview

import (
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Columns are the widths of the slots' columns; 0 leaves one out.
type Columns struct {
	id, label, key, pin, touch, cert, expires, bar int
}

const columnGap = 2

// Measure is how wide the names of slots are: a token may hold a thousand, so
// that they are measured when they change, not for every frame.
type Measure struct{ id, label int }

// Of measures slots.
func Of(slots []hsm.Slot) Measure {
	m := Measure{id: 4}
	for _, s := range slots {
		m.id = max(m.id, widget.Width(present.ID(s)))
		if !s.URI.Kind().HasSlots() {
			m.label = max(m.label, widget.Width(text.Clean(s.Label)))
		}
	}
	return m
}

// For shares w columns: what identifies a slot and what is in it always
// shows; policies, labels and bars only where there is room.
func (m Measure) For(w int) Columns {
	c := Columns{id: min(m.id, max(w/3, 4)), key: 10, expires: 11}
	if w >= 72 {
		c.pin, c.touch = 7, 7
	}
	if w >= 92 {
		c.bar = 8
	}
	rest := func() int {
		n := w - 4
		for _, x := range []int{c.id, c.label, c.key, c.pin, c.touch, c.expires, c.bar} {
			if x > 0 {
				n -= x + columnGap
			}
		}
		return n
	}
	if m.label > 0 {
		c.label = min(max(m.label, 5), max(rest()/2-columnGap, 5))
	}
	c.cert = max(rest(), 4)
	return c
}

// Heading names the columns.
func (c Columns) Heading() string {
	return "  " + c.join("SLOT", "LABEL", "KEY", "PIN", "TOUCH", "CERTIFICATE", "EXPIRES", "")
}

func (c Columns) join(cells ...string) string {
	var b strings.Builder
	for i, w := range []int{c.id, c.label, c.key, c.pin, c.touch, c.cert, c.expires, c.bar} {
		if w > 0 {
			b.WriteString(widget.Fit(cells[i], w) + strings.Repeat(" ", columnGap))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Slot draws a slot's line without the mark before it.
func (c Columns) Slot(f screen.Frame, s hsm.Slot, selected bool) string {
	t, r := f.Theme, present.RowOf(s, f.Now)
	switch {
	case r.Problem != "":
		line := "  " + widget.Fit(present.ID(s), c.id) + "  " + t.Glyphs.Warn + " " + r.Problem
		return t.Warn.Render(widget.Cut(line, f.Width-2))
	case r.Empty:
		line := "  " + widget.Fit(present.ID(s), c.id) + "  empty"
		if selected {
			return t.Selected.Render(widget.Fit(line, f.Width-2))
		}
		return t.Faint.Render(line)
	}
	key, cert, ends := t.Marked(r.Key), t.Marked(r.Certificate), t.Marked(r.Expires)
	if selected {
		line := "  " + c.join(present.ID(s), r.Label, key, r.PIN, r.Touch, cert, ends, "")
		line = widget.Fit(line, f.Width-2-c.bar)
		if c.bar > 0 && ends != "" {
			return t.Selected.Render(line) + widget.Bar(t, c.bar, r.Left)
		}
		return t.Selected.Render(widget.Fit(line, f.Width-2))
	}
	bar := ""
	if ends != "" {
		bar = widget.Bar(t, c.bar, r.Left)
	}
	return "  " + c.join(t.Text.Render(present.ID(s)), t.Text.Render(r.Label), t.Text.Render(key), t.Muted.Render(r.PIN),
		t.Muted.Render(r.Touch), t.Text.Render(cert), t.Level(r.Expires.Level).Render(ends), bar)
}
