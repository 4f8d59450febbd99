// Package qr draws QR codes: with characters for terminals, as SVG and PNG.
package qr

import (
	"fmt"
	"strings"

	"rsc.io/qr"
)

// quiet is the white margin of a QR code, in modules (ISO/IEC 18004: four).
const quiet = 4

func encode(text string) (*qr.Code, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return nil, fmt.Errorf("draw the QR code: %w", err)
	}
	return code, nil
}

// Draw draws a QR code with half blocks, two modules a character, without
// colours: light modules are drawn, for light letters on a dark terminal; with
// inverse the dark ones.
func Draw(text string, inverse bool) (string, error) {
	code, err := encode(text)
	if err != nil {
		return "", err
	}
	drawn := func(x, y int) bool { return code.Black(x, y) == inverse }
	var b strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		for x := -quiet; x < code.Size+quiet; x++ {
			switch top, bottom := drawn(x, y), drawn(x, y+1); {
			case top && bottom:
				b.WriteRune('█')
			case top:
				b.WriteRune('▀')
			case bottom:
				b.WriteRune('▄')
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// PNG is a QR code as an image.
func PNG(text string) ([]byte, error) {
	code, err := encode(text)
	if err != nil {
		return nil, err
	}
	return code.PNG(), nil
}

// SVG is a QR code as a drawing.
func SVG(text string) ([]byte, error) {
	code, err := encode(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	size := code.Size + 2*quiet
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" shape-rendering="crispEdges">`+
			`<rect width="100%%" height="100%%" fill="#fff"/><path d="`, size, size)
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x+quiet, y+quiet)
			}
		}
	}
	b.WriteString("\"/></svg>\n")
	return []byte(b.String()), nil
}
