//go:build linux

package term

import (
	"image/color"
	"strings"

	uv "github.com/charmbracelet/ultraviolet"
)

// Cell is one place on the screen.
type Cell struct {
	// Text is a grapheme cluster; "" is the second half of a wide one.
	Text string
	// Width is 1, or 2 for a wide cluster, or 0 for its second half.
	Width int
	// Foreground and Background are nil for the terminal's own. Otherwise they
	// are of the types of package ansi: a basic or indexed one, or RGB.
	Foreground, Background color.Color

	Bold, Faint, Italic, Underline, Reverse, Strike bool
}

// Frame is the screen at one moment.
type Frame struct {
	Columns, Rows int
	// Cells are the rows from the top, each of Columns cells.
	Cells [][]Cell
	// CursorX and CursorY are where the cursor is, from 0.
	CursorX, CursorY int
}

// screen is what a frame is taken from.
type screen interface {
	CellAt(x, y int) *uv.Cell
	CursorPosition() uv.Position
	Width() int
	Height() int
}

func frameOf(s screen) Frame {
	f := Frame{Columns: s.Width(), Rows: s.Height()}
	pos := s.CursorPosition()
	f.CursorX, f.CursorY = pos.X, pos.Y
	for y := range f.Rows {
		row := make([]Cell, f.Columns)
		for x := range f.Columns {
			row[x] = cellOf(s.CellAt(x, y))
		}
		f.Cells = append(f.Cells, row)
	}
	return f
}

func cellOf(c *uv.Cell) Cell {
	if c == nil {
		return Cell{Text: " ", Width: 1}
	}
	is := func(attr uint8) bool { return c.Style.Attrs&attr != 0 }
	out := Cell{
		Text: c.Content, Width: c.Width,
		Foreground: c.Style.Fg, Background: c.Style.Bg,
		Bold: is(uv.AttrBold), Faint: is(uv.AttrFaint), Italic: is(uv.AttrItalic),
		Reverse: is(uv.AttrReverse), Strike: is(uv.AttrStrikethrough),
		Underline: c.Style.Underline != uv.UnderlineNone,
	}
	if out.Text == "" && out.Width != 0 {
		out.Text, out.Width = " ", 1
	}
	return out
}

// Lines returns the rows as text, without the blanks at their ends.
func (f Frame) Lines() []string {
	lines := make([]string, len(f.Cells))
	for y, row := range f.Cells {
		var b strings.Builder
		for _, c := range row {
			b.WriteString(c.Text)
		}
		lines[y] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// Text returns the screen as text, without blank rows at its end.
func (f Frame) Text() string {
	return strings.TrimRight(strings.Join(f.Lines(), "\n"), "\n")
}

// Contains tells whether text, of one row, is on the screen.
func (f Frame) Contains(text string) bool { return strings.Contains(f.Text(), text) }

// Crop returns the frame without the blank rows at its end.
func (f Frame) Crop() Frame {
	lines := f.Lines()
	for f.Rows > 0 && lines[f.Rows-1] == "" {
		f.Rows--
	}
	f.Cells = f.Cells[:f.Rows]
	return f
}
