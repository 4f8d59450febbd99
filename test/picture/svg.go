//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/test/term"
)

// Measures in pixels. Every run of text is stretched to its cells, so that the
// grid holds whatever monospaced font the reader has.
const (
	fontSize   = 14.0
	cellWidth  = 8.5
	cellHeight = 19.0
	baseline   = 14.0 // from the cell's top
	padding    = 14.0
	barHeight  = 34.0
)

const fonts = `ui-monospace, 'JetBrains Mono', 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Noto Sans Mono CJK JP', monospace`

// window draws a terminal window of that size around its rows. The picture holds all that it
// needs, and no script.
func window(columns, rows int, title, styles, content string) string {
	width, height := float64(columns)*cellWidth+2*padding, float64(rows)*cellHeight+2*padding+barHeight
	var b strings.Builder
	fmt.Fprintf(
		&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" role="img" aria-label="%s">`+"\n",
		width,
		height,
		escape(title),
	)
	fmt.Fprintf(
		&b,
		`<style>text{font:%gpx %s;white-space:pre}.b{font-weight:bold}.t{font:12px system-ui,'DejaVu Sans',sans-serif}%s</style>`+"\n",
		fontSize,
		fonts,
		styles,
	)
	fmt.Fprintf(&b, `<rect x=".5" y=".5" width="%g" height="%g" rx="9" fill="%s" stroke="%s"/>`+"\n", width-1, height-1,
		background, frameLine)
	fmt.Fprintf(&b, `<path d="M1 %gV9.5A8.5 8.5 0 0 1 9.5 1H%gA8.5 8.5 0 0 1 %g 9.5V%[1]gZ" fill="%[4]s"/>`+"\n",
		barHeight, width-9.5, width-1, titleBar)
	for i, c := range buttons {
		fmt.Fprintf(&b, `<circle cx="%g" cy="%g" r="6" fill="%s"/>`, padding+8+float64(i)*20, barHeight/2, c)
	}
	fmt.Fprintf(&b, "\n"+`<text class="t" x="%g" y="%g" text-anchor="middle" fill="%s">%s</text>`+"\n", width/2,
		barHeight/2+4, titleText, escape(title))
	return b.String() + content + "</svg>\n"
}

// renderRow draws the backgrounds of a row, then what stands on them.
func renderRow(row []term.Cell, left, top float64) string {
	var paper, ink strings.Builder
	at := func(x int) float64 { return left + float64(x)*cellWidth }
	for x := 0; x < len(row); {
		_, bg := colours(row[x])
		n := stretch(row, x, func(a, b term.Cell) bool { _, p := colours(a); _, q := colours(b); return p == q })
		if bg != background {
			fmt.Fprintf(&paper, `<rect x="%g" y="%g" width="%g" height="%g" fill="%s" shape-rendering="crispEdges"/>`,
				at(x), top, float64(n)*cellWidth, cellHeight, bg)
		}
		x += n
	}
	for x := 0; x < len(row); {
		fg, _ := colours(row[x])
		n := stretch(row, x, sameInk)
		ink.WriteString(renderRun(row[x:x+n], at(x), top, fg))
		x += n
	}
	if paper.Len()+ink.Len() == 0 {
		return ""
	}
	return paper.String() + ink.String() + "\n"
}

// stretch is how many cells from x on are like the first.
func stretch(row []term.Cell, x int, like func(a, b term.Cell) bool) int {
	n := 1
	for x+n < len(row) && like(row[x], row[x+n]) {
		n++
	}
	return n
}

func sameInk(a, b term.Cell) bool {
	p, _ := colours(a)
	q, _ := colours(b)
	return p == q && a.Bold == b.Bold
}

// renderRun writes cells of one style, a piece for every word, so that a wrong
// guess of a glyph's width cannot add up.
func renderRun(cells []term.Cell, x, top float64, fg rgb) string {
	var b strings.Builder
	for i := 0; i < len(cells); {
		if strings.TrimSpace(cells[i].Text) == "" {
			i++
			continue
		}
		word, n := "", 0
		for i+n < len(cells) && strings.TrimSpace(cells[i+n].Text) != "" {
			word += cells[i+n].Text
			n++
		}
		b.WriteString(renderText(word, cells[i], x+float64(i)*cellWidth, top, n, fg))
		i += n
	}
	return b.String()
}

func renderText(text string, c term.Cell, x, top float64, cells int, fg rgb) string {
	class := ""
	if c.Bold {
		class = ` class="b"`
	}
	return fmt.Sprintf(`<text x="%g" y="%g" textLength="%g" lengthAdjust="spacingAndGlyphs" fill="%s"%s>%s</text>`,
		x, top+baseline, float64(cells)*cellWidth, fg, class, escape(text))
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace
