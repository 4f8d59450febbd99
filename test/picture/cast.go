//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/term"
)

// Paces of a moving picture. They are the picture's own, whatever the machine's are: it is the same on each.
const (
	letter  = 45 * time.Millisecond   // time for a letter that is typed
	passing = 250 * time.Millisecond  // time for words that the program shows on its way
	touched = 1400 * time.Millisecond // time until somebody has touched the token
)

// cast is a moving picture: what a terminal showed, and for how long each.
type cast struct {
	shots []shot
}

type shot struct {
	frame term.Frame
	long  time.Duration
}

// show adds a frame. One that looks like the last is that, for longer.
func (c *cast) show(f term.Frame, long time.Duration) {
	f = withCursor(f)
	if n := len(c.shots); n > 0 && slices.EqualFunc(c.shots[n-1].frame.Cells, f.Cells, slices.Equal[[]term.Cell]) {
		c.shots[n-1].long += long
		return
	}
	c.shots = append(c.shots, shot{f, long})
}

// withCursor is a frame with its cursor drawn.
func withCursor(f term.Frame) term.Frame {
	f.Cells = slices.Clone(f.Cells)
	if f.CursorY < len(f.Cells) && f.CursorX < len(f.Cells[f.CursorY]) {
		row := slices.Clone(f.Cells[f.CursorY])
		row[f.CursorX].Reverse = !row[f.CursorX].Reverse
		f.Cells[f.CursorY] = row
	}
	return f
}

// types has a person type a command and send it.
func (c *cast) types(ctx context.Context, s *term.Terminal, command string) error {
	for i, r := range command {
		if err := s.Type(string(r)); err != nil {
			return err
		}
		err := s.Wait(ctx, func(f term.Frame) bool {
			return strings.HasSuffix(f.Lines()[f.CursorY], command[:i]+string(r)) || r == ' '
		})
		if err != nil {
			return fmt.Errorf("type %q: %w; the screen:\n%s", command, err, s.Frame().Text())
		}
		c.show(s.Frame(), letter)
	}
	c.show(s.Frame(), 8*letter)
	return s.Type("\r")
}

// until shows what the program does until the screen is as it should be, and then that for so long.
func (c *cast) until(
	ctx context.Context,
	s *term.Terminal,
	what string,
	is func(term.Frame) bool,
	long time.Duration,
) error {
	const atMost = 4 // lines of the words shown on the way
	var seen []term.Frame
	err := s.Wait(ctx, func(f term.Frame) bool {
		if len(seen) == 0 || seen[len(seen)-1].Text() != f.Text() {
			seen = append(seen, f)
		}
		return is(f)
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w; the screen:\n%s", what, err, s.Frame().Text())
	}
	last := seen[len(seen)-1]
	seen = seen[:len(seen)-1]
	asked := false
	for i, f := range seen {
		wanted := f.Contains(touchPrompt)
		switch {
		case wanted && !asked:
			c.show(f, touched)
		case len(seen)-i <= atMost:
			c.show(f, passing)
		}
		asked = wanted
	}
	c.show(last, long)
	return nil
}

// render draws the cast: each row for the time that it stands there, by CSS alone. Where nothing moves, as in print or
// for who wants no motion, the last frame is seen.
func (c *cast) render(title string) string {
	var total time.Duration
	for _, s := range c.shots {
		total += s.long
	}
	last := c.shots[len(c.shots)-1].frame
	var rows, styles strings.Builder
	fmt.Fprintf(
		&styles,
		"g{animation:%gs step-end infinite}@media(prefers-reduced-motion:reduce){g{animation:none!important}}",
		total.Seconds(),
	)
	names := map[[2]time.Duration]string{}
	for y := range last.Rows {
		from := time.Duration(0)
		for i := 0; i < len(c.shots); {
			row, until := c.shots[i].frame.Cells[y], from
			for ; i < len(c.shots) && slices.Equal(c.shots[i].frame.Cells[y], row); i++ {
				until += c.shots[i].long
			}
			drawn := renderRow(row, padding, padding+barHeight+float64(y)*cellHeight)
			switch span := [2]time.Duration{from, until}; {
			case drawn == "":
			case from == 0 && until == total:
				rows.WriteString(drawn)
			default:
				if names[span] == "" {
					names[span] = fmt.Sprintf("k%d", len(names))
					styles.WriteString(appears(names[span], from, until, total))
				}
				fmt.Fprintf(&rows, `<g class="%s">%s</g>`+"\n", names[span], strings.TrimSuffix(drawn, "\n"))
			}
			from = until
		}
	}
	return window(last.Columns, last.Rows, title, styles.String(), rows.String())
}

// appears is the style of what is seen from one time until another.
func appears(name string, from, until, total time.Duration) string {
	percent := func(t time.Duration) string { return fmt.Sprintf("%.4g%%", 100*float64(t)/float64(total)) }
	var b strings.Builder
	fmt.Fprintf(&b, "\n@keyframes %s{", name)
	if from > 0 {
		b.WriteString("0%{visibility:hidden}")
	}
	b.WriteString(percent(from) + "{visibility:visible}")
	rest := "visible"
	if until < total {
		b.WriteString(percent(until) + "{visibility:hidden}")
		rest = "hidden"
	}
	fmt.Fprintf(&b, "}.%s{visibility:%s;animation-name:%[1]s}", name, rest)
	return b.String()
}
