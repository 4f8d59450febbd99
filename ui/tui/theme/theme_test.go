package theme

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/charmbracelet/colorprofile"

	"github.com/kubehsm/kubehsm/test/must"
)

// least is the contrast of text that WCAG 2 asks for (success criterion 1.4.3).
const least = 4.5

type rgb [3]float64

var (
	black = rgb{}
	white = rgb{255, 255, 255}
)

// indexed is a colour of xterm's 256: the first 16 are the terminal's own, and not known.
func indexed(t *testing.T, n int) rgb {
	t.Helper()
	switch {
	case n < 16 || n > 255:
		t.Fatalf("colour %d is each terminal's own", n)
	case n >= 232:
		v := float64(8 + 10*(n-232))
		return rgb{v, v, v}
	}
	level := func(i int) float64 {
		if i == 0 {
			return 0
		}
		return float64(55 + 40*i)
	}
	n -= 16
	return rgb{level(n / 36), level(n / 6 % 6), level(n % 6)}
}

// luminance is WCAG's relative luminance.
func (c rgb) luminance() float64 {
	linear := func(v float64) float64 {
		if v /= 255; v > 0.04045 {
			return math.Pow((v+0.055)/1.055, 2.4)
		}
		return v / 12.92
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

func contrast(a, b rgb) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// drawn reads the colours that a style really sets from its codes: nil for the terminal's own.
func drawn(t *testing.T, s Style) (fg, bg *rgb, kinds []string) {
	t.Helper()
	before, _, _ := strings.Cut(s.Render("x"), "x")
	for _, seq := range strings.Split(before, "\x1b[")[1:] {
		params := strings.Split(strings.TrimSuffix(seq, "m"), ";")
		for i := 0; i < len(params); i++ {
			if params[i] != "38" && params[i] != "48" {
				continue
			}
			var c rgb
			at := params[i]
			switch kind := params[i+1]; kind {
			case "2":
				for j := range c {
					v, err := strconv.Atoi(params[i+2+j])
					must.OK(t, err)
					c[j] = float64(v)
				}
				kinds, i = append(kinds, "full"), i+4
			case "5":
				n, err := strconv.Atoi(params[i+2])
				must.OK(t, err)
				c, kinds, i = indexed(t, n), append(kinds, "indexed"), i+2
			default:
				t.Fatalf("unknown colour in %q", before)
			}
			if at == "38" {
				fg = &c
			} else {
				bg = &c
			}
		}
	}
	return fg, bg, kinds
}

// styles are all of a theme, by name.
func styles(th Theme) map[string]Style {
	all := map[string]Style{}
	v := reflect.ValueOf(th)
	for i := range v.NumField() {
		if s, ok := v.Field(i).Interface().(Style); ok {
			all[v.Type().Field(i).Name] = s
		}
	}
	return all
}

// TestContrast: whatever is written can be read, on black and on white, in full colour and with
// 256 colours: the faintest too. What has a background of its own can be read on that. With 256
// colours every colour is one of these, none is left to be approximated.
func TestContrast(t *testing.T) {
	for _, c := range []struct {
		profile colorprofile.Profile
		kind    string
	}{{colorprofile.TrueColor, "full"}, {colorprofile.ANSI256, "indexed"}} {
		for _, light := range []bool{false, true} {
			behind := black
			if light {
				behind = white
			}
			for name, s := range styles(New(Options{Light: light, Profile: c.profile})) {
				fg, bg, kinds := drawn(t, s)
				on := behind
				if bg != nil {
					on = *bg
				}
				if fg == nil {
					t.Errorf("%s, %s, light %v: no colour", name, c.kind, light)
					continue
				}
				if got := contrast(*fg, on); got < least {
					t.Errorf("%s, %s, light %v: contrast %.2f of %v on %v", name, c.kind, light, got, *fg, on)
				}
				for _, k := range kinds {
					if k != c.kind {
						t.Errorf("%s, %s, light %v: a colour is %s", name, c.kind, light, k)
					}
				}
			}
		}
	}
}

// TestGreysAreGrey: with 256 colours, text that is not meant to have a colour has none.
func TestGreysAreGrey(t *testing.T) {
	for _, light := range []bool{false, true} {
		th := New(Options{Light: light, Profile: colorprofile.ANSI256})
		for name, s := range map[string]Style{"text": th.Text, "strong": th.Strong, "muted": th.Muted, "faint": th.Faint,
			"title": th.Title, "behind": th.Behind, "selected": th.Selected} {
			fg, bg, _ := drawn(t, s)
			for what, c := range map[string]*rgb{"on": bg, "of": fg} {
				if c != nil && (c[0] != c[1] || c[1] != c[2]) {
					t.Errorf("light %v: %s is %s %v", light, name, what, *c)
				}
			}
		}
	}
}

// TestNoColour: without colours no style sets one, and the button and what is selected are still
// told from the rest.
func TestNoColour(t *testing.T) {
	for _, light := range []bool{false, true} {
		th := New(Options{Light: light, Profile: colorprofile.ASCII})
		for name, s := range styles(th) {
			if fg, bg, _ := drawn(t, s); fg != nil || bg != nil {
				t.Errorf("%s sets a colour: %q", name, s.Render("x"))
			}
			for _, code := range strings.FieldsFunc(s.Render("x"), func(r rune) bool { return r < '0' || r > '9' }) {
				if n, _ := strconv.Atoi(code); n >= 30 {
					t.Errorf("%s: %q", name, s.Render("x"))
				}
			}
		}
		for name, s := range map[string]Style{"button": th.Button, "selected": th.Selected, "faint": th.Faint} {
			if s.Render("x") == th.Text.Render("x") {
				t.Errorf("%s looks like text", name)
			}
		}
	}
}
