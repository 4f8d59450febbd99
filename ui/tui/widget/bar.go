package widget

import (
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// SpinnerDelay is how long work runs before a spinner shows, and
// ElapsedDelay before the elapsed time does: short work stays calm.
const (
	SpinnerDelay = 200 * time.Millisecond
	ElapsedDelay = 3 * time.Second
	// Frame is how long one picture of a spinner stays.
	Frame = 100 * time.Millisecond
)

// Bar draws a progress bar of w columns; ratio is 0 to 1. The progress bar of
// bubbles knows colours only: under NO_COLOR the part to come could not be faint.
func Bar(t theme.Theme, w int, ratio float64) string {
	if w < 1 {
		return ""
	}
	n := int(min(max(ratio, 0), 1)*float64(w) + 0.5)
	return t.Accent.Render(strings.Repeat(t.Glyphs.Full, n)) + t.Faint.Render(strings.Repeat(t.Glyphs.Empty, w-n))
}

// Spinner draws a spinner for work that began at since; a space during the
// first [SpinnerDelay].
func Spinner(t theme.Theme, since, now time.Time) string {
	d := now.Sub(since)
	if d < SpinnerDelay {
		return " "
	}
	return t.Accent.Render(t.Glyphs.Spinner[int(d/Frame)%len(t.Glyphs.Spinner)])
}

// Working draws a spinner, what is being done, and after [ElapsedDelay] how
// long it has taken. It is empty during the first [SpinnerDelay].
func Working(t theme.Theme, what string, since, now time.Time) string {
	d := now.Sub(since)
	if d < SpinnerDelay {
		return ""
	}
	s := Spinner(t, since, now) + " " + t.Muted.Render(what)
	if d >= ElapsedDelay {
		s += t.Muted.Render(" " + t.Glyphs.Dot + " " + present.Elapsed(d))
	}
	return s
}
