//go:build linux

package main

import "fmt"

// Lines and blocks are drawn, not written: fonts differ in how far their box
// drawing characters reach, and leave gaps.

// corners are round: which way they lead, as steps right and down.
var corners = map[string][2]float64{"╭": {1, 1}, "╮": {-1, 1}, "╰": {1, -1}, "╯": {-1, -1}}

// blocks are parts of a cell that are filled: x, y, width, height of 0 to 1.
var blocks = map[string][4]float64{"█": {0, 0, 1, 1}, "▀": {0, 0, 1, .5}, "▄": {0, .5, 1, .5}, "▌": {0, 0, .5, 1}}

// drawing is the SVG of a line or block in the cell at x, y; "" if text is neither.
func drawing(text string, x, y float64, c rgb) string {
	midX, midY, endX, endY := x+cellWidth/2, y+cellHeight/2, x+cellWidth, y+cellHeight
	line := func(fromX, fromY, toX, toY float64) string {
		return fmt.Sprintf(`<path d="M%g %gL%g %g" stroke="%s" stroke-width="1"/>`, fromX, fromY, toX, toY, c)
	}
	if b, ok := blocks[text]; ok {
		return fmt.Sprintf(`<rect x="%g" y="%g" width="%g" height="%g" fill="%s" shape-rendering="crispEdges"/>`,
			x+b[0]*cellWidth, y+b[1]*cellHeight, b[2]*cellWidth, b[3]*cellHeight, c)
	}
	if to, ok := corners[text]; ok {
		const radius = cellWidth / 2
		return fmt.Sprintf(`<path d="M%g %gV%gQ%[1]g %[4]g %[5]g %[4]g" fill="none" stroke="%[6]s"/>`,
			midX, midY+to[1]*cellHeight/2, midY+to[1]*radius, midY, midX+to[0]*cellWidth/2, c)
	}
	switch text {
	case "─":
		return line(x, midY, endX, midY)
	case "│":
		return line(midX, y, midX, endY)
	}
	return ""
}
