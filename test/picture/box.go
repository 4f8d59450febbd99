//go:build linux

package main

import "fmt"

// Lines and blocks are drawn, not written: fonts differ in how far their box
// drawing characters reach, and leave gaps.

// arms of a box drawing character: up, right, down, left; 1 is light, 2 heavy.
var arms = map[string][4]int{
	"─": {0, 1, 0, 1}, "━": {0, 2, 0, 2}, "│": {1, 0, 1, 0}, "┃": {2, 0, 2, 0},
	"┌": {0, 1, 1, 0}, "┐": {0, 0, 1, 1}, "└": {1, 1, 0, 0}, "┘": {1, 0, 0, 1},
	"┏": {0, 2, 2, 0}, "┓": {0, 0, 2, 2}, "┗": {2, 2, 0, 0}, "┛": {2, 0, 0, 2},
	"├": {1, 1, 1, 0}, "┤": {1, 0, 1, 1}, "┬": {0, 1, 1, 1}, "┴": {1, 1, 0, 1}, "┼": {1, 1, 1, 1},
	"╴": {0, 0, 0, 1}, "╵": {1, 0, 0, 0}, "╶": {0, 1, 0, 0}, "╷": {0, 0, 1, 0},
}

// corners are the round ones: which way they lead, as steps right and down.
var corners = map[string][2]float64{"╭": {1, 1}, "╮": {-1, 1}, "╰": {1, -1}, "╯": {-1, -1}}

// blocks are parts of a cell that are filled: x, y, width, height of 0 to 1.
var blocks = map[string][4]float64{
	"█": {0, 0, 1, 1}, "▀": {0, 0, 1, .5}, "▄": {0, .5, 1, .5}, "▌": {0, 0, .5, 1}, "▐": {.5, 0, .5, 1},
	"▁": {0, .875, 1, .125}, "▂": {0, .75, 1, .25}, "▃": {0, .625, 1, .375}, "▅": {0, .375, 1, .625},
	"▆": {0, .25, 1, .75}, "▇": {0, .125, 1, .875}, "▔": {0, 0, 1, .125}, "▕": {.875, 0, .125, 1},
	"▏": {0, 0, .125, 1}, "▎": {0, 0, .25, 1}, "▍": {0, 0, .375, 1}, "▋": {0, 0, .625, 1}, "▊": {0, 0, .75, 1},
	"▉": {0, 0, .875, 1},
}

// drawn tells whether text is a character that drawing draws.
func drawn(text string) bool {
	_, line := arms[text]
	_, corner := corners[text]
	_, block := blocks[text]
	return line || corner || block
}

// drawing is the SVG of a line or block in the cell at x, y.
func drawing(text string, x, y float64, c rgb) string {
	if b, ok := blocks[text]; ok {
		return fmt.Sprintf(`<rect x="%g" y="%g" width="%g" height="%g" fill="%s" shape-rendering="crispEdges"/>`,
			x+b[0]*cellWidth, y+b[1]*cellHeight, b[2]*cellWidth, b[3]*cellHeight, c)
	}
	midX, midY, endX, endY := x+cellWidth/2, y+cellHeight/2, x+cellWidth, y+cellHeight
	if to, ok := corners[text]; ok {
		const radius = cellWidth / 2
		return fmt.Sprintf(`<path d="M%g %gV%gQ%[1]g %[4]g %[5]g %[4]g" fill="none" stroke="%[6]s"/>`,
			midX, midY+to[1]*cellHeight/2, midY+to[1]*radius, midY, midX+to[0]*cellWidth/2, c)
	}
	out := ""
	a := arms[text]
	for i, end := range [4][2]float64{{midX, y}, {endX, midY}, {midX, endY}, {x, midY}} {
		if a[i] > 0 {
			out += fmt.Sprintf(`<path d="M%g %gL%g %g" stroke="%s" stroke-width="%d"/>`, midX, midY, end[0], end[1], c, a[i])
		}
	}
	return out
}
