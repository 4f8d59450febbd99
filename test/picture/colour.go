//go:build linux

package main

import (
	"fmt"
	"image/color"

	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/test/term"
)

// rgb is a colour without transparency.
type rgb struct{ r, g, b uint8 }

func (c rgb) String() string { return fmt.Sprintf("#%02x%02x%02x", c.r, c.g, c.b) }

// The terminal of the pictures: a dark theme.
var (
	background = rgb{0x16, 0x18, 0x21}
	foreground = rgb{0xd8, 0xdc, 0xe6}
	frameLine  = rgb{0x33, 0x37, 0x45}
	titleBar   = rgb{0x20, 0x23, 0x2e}
	titleText  = rgb{0x8b, 0x92, 0xa5}
	buttons    = []rgb{{0xf0, 0x6a, 0x6a}, {0xe6, 0xb4, 0x5a}, {0x6f, 0xbf, 0x73}}
	// basic are the 16 colours that programs name by number.
	basic = [16]rgb{
		{0x2a, 0x2e, 0x3a}, {0xf2, 0x7a, 0x7a}, {0x8f, 0xcf, 0x8a}, {0xe8, 0xc0, 0x70},
		{0x7a, 0xae, 0xf5}, {0xc5, 0x9b, 0xef}, {0x6f, 0xc9, 0xcf}, {0xc4, 0xc9, 0xd4},
		{0x6b, 0x72, 0x85}, {0xff, 0x97, 0x97}, {0xa9, 0xe3, 0xa4}, {0xf6, 0xd5, 0x8f},
		{0x9b, 0xc4, 0xff}, {0xd9, 0xb8, 0xff}, {0x93, 0xe0, 0xe5}, {0xff, 0xff, 0xff},
	}
)

// colourOf is c in this theme; otherwise serves where c is nil.
func colourOf(c color.Color, otherwise rgb) rgb {
	switch c := c.(type) {
	case nil:
		return otherwise
	case ansi.BasicColor:
		return basic[c&15]
	case ansi.IndexedColor:
		if c < 16 {
			return basic[c]
		}
	}
	r, g, b, _ := c.RGBA()
	return rgb{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}
}

// colours of a cell, as they are painted.
func colours(c term.Cell) (fg, bg rgb) {
	fg, bg = colourOf(c.Foreground, foreground), colourOf(c.Background, background)
	if c.Reverse {
		fg, bg = bg, fg
	}
	if c.Faint {
		fg = mix(fg, bg, 0.6)
	}
	return fg, bg
}

// mix is a share of a and the rest of b.
func mix(a, b rgb, share float64) rgb {
	m := func(x, y uint8) uint8 { return uint8(float64(x)*share + float64(y)*(1-share)) }
	return rgb{m(a.r, b.r), m(a.g, b.g), m(a.b, b.b)}
}
