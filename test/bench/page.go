//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// page is what was measured so far.
type page struct {
	rows   []row
	counts []count
}

// row is a ratio to somebody else's program. The bar is what it may be at most, 0
// if there is none.
type row struct {
	what, against string
	pair          pair
	bar           float64
}

// count is a figure of its own, with its bar in words.
type count struct{ what, value, bar string }

// compare measures a row.
func (b *bench) compare(ctx context.Context, r row, n int, ours, theirs timed) error {
	p, err := measure(ctx, n, ours, theirs)
	if err != nil {
		return fmt.Errorf("%s: %w", r.what, err)
	}
	r.pair = p
	b.measured(r)
	return nil
}

// measured adds a row and says it: a run takes long, and may not come to its end.
func (p *page) measured(r row) {
	fmt.Fprintf(os.Stderr, "%s: %.2f%s (bar %s)\n", r.what, r.pair.ratio(), r.pair.interval(), barText(r.bar))
	p.rows = append(p.rows, r)
}

// found adds a figure and says it.
func (p *page) found(what string, bar, format string, a ...any) {
	c := count{what, fmt.Sprintf(format, a...), bar}
	fmt.Fprintf(os.Stderr, "%s: %s (bar %s)\n", c.what, c.value, c.bar)
	p.counts = append(p.counts, c)
}

func barText(bar float64) string {
	if bar == 0 {
		return "–"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.2f", bar), "0")
}

// interval is the ratio's in words, with a space before it; "" if it has none.
func (p pair) interval() string {
	if p.high == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.2f–%.2f)", p.low, p.high)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// text is the page with what must be known to read it.
func (p *page) text(n int, failed []string) (string, error) {
	machine, err := machine()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"# Benchmarks\n\nWritten by `make bench` (`go run ./test/bench`): %s. Whole processes, and requests "+
			"where the bridge is named; "+
			"%d pairs in turn and more where said, medians, the 95 %% interval of their ratio (bootstrap).\n"+
			"Machines are noisy: ratios of one run mean something, times of different runs do not.\n\n", machine, n)
	b.WriteString("| what | against | ratio (95 % interval) | bar | medians |\n|---|---|---|---|---|\n")
	for _, r := range p.rows {
		fmt.Fprintf(&b, "| %s | %s | **%.2f**%s | %s | %s / %s |\n", r.what, r.against, r.pair.ratio(), r.pair.interval(),
			barText(r.bar), milliseconds(r.pair.ours), milliseconds(r.pair.theirs))
	}
	b.WriteString("\n| what | figure | bar |\n|---|---|---|\n")
	for _, c := range p.counts {
		fmt.Fprintf(&b, "| %s | **%s** | %s |\n", c.what, c.value, c.bar)
	}
	if len(failed) > 0 {
		fmt.Fprintf(&b, "\nThese failed, wholly or in part: %s.\n", strings.Join(failed, ", "))
	}
	return b.String(), nil
}
