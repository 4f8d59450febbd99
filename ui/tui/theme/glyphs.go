package theme

import (
	"strings"

	"charm.land/bubbles/v2/spinner"
	"charm.land/lipgloss/v2"
)

func unicodeGlyphs() Glyphs {
	return Glyphs{
		Mark: "▌", Done: "✓", Failed: "✗", Pending: "·", Reused: "↺", Warn: "!", Dot: "•", On: "●", Off: "○",
		Full: "█", Empty: "░", Bullet: "•", Rule: "─", Bar: "│", More: "…", Up: "↑", Down: "↓", Sep: "›",
		Left: "‹", Right: "›",
		Spinner: spinner.MiniDot.Frames,
		Border:  lipgloss.RoundedBorder(),
	}
}

func asciiGlyphs() Glyphs {
	return Glyphs{
		Mark: ">", Done: "+", Failed: "x", Pending: ".", Reused: "=", Warn: "!", Dot: "-", On: "*", Off: "o",
		Full: "#", Empty: "-", Bullet: "*", Rule: "-", Bar: "|", More: "~", Up: "^", Down: "v", Sep: ">",
		Left: "<", Right: ">",
		Spinner: spinner.Line.Frames,
		Border:  lipgloss.ASCIIBorder(),
	}
}

// PlainCharset tells from a process environment whether the terminal's
// character set is not UTF-8: the first of LC_ALL, LC_CTYPE and LANG that is
// set names another one. With none set UTF-8 is taken for granted.
func PlainCharset(env []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		for i := len(env) - 1; i >= 0; i-- { // the last one counts
			value, ok := strings.CutPrefix(env[i], name+"=")
			if !ok {
				continue
			}
			if value == "" {
				break
			}
			v := strings.ToLower(value)
			return !strings.Contains(v, "utf-8") && !strings.Contains(v, "utf8")
		}
	}
	return false
}
