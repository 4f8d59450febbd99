//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/term"
)

// lines is a frame of two rows.
func lines(rows ...string) term.Frame {
	f := term.Frame{Columns: 8, Rows: 2, CursorX: 7, CursorY: 1}
	for y := range f.Rows {
		row := make([]term.Cell, f.Columns)
		for x := range row {
			row[x] = term.Cell{Text: " ", Width: 1}
			if y < len(rows) && x < len(rows[y]) {
				row[x].Text = rows[y][x : x+1]
			}
		}
		f.Cells = append(f.Cells, row)
	}
	return f
}

// TestCast: each row stands in the moving picture for its time, and where nothing moves the last frame is seen.
func TestCast(t *testing.T) {
	var c cast
	c.show(lines("stays"), time.Second)
	c.show(lines("stays"), time.Second)
	c.show(lines("stays", "passes"), 3*time.Second)
	c.show(lines("stays", "ends"), 5*time.Second)
	if len(c.shots) != 3 {
		t.Errorf("%d shots: what looks the same is not one", len(c.shots))
	}
	svg, err := c.render("a cast")
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	style := func(word string) string {
		t.Helper()
		class := regexp.MustCompile(`<g class="(k\d+)">[^\n]*>` + word + `<`).FindStringSubmatch(svg)
		if class == nil {
			t.Fatalf("%q does not move: %s", word, svg)
		}
		rule := regexp.MustCompile(`@keyframes ` + class[1] + `\{(.*)\}\.` + class[1] + `\{visibility:(\w+)`).
			FindStringSubmatch(svg)
		return rule[1] + " " + rule[2]
	}
	if got := style("passes"); got != "0%{visibility:hidden}20%{visibility:visible}50%{visibility:hidden} hidden" {
		t.Error(got)
	}
	if got := style("ends"); got != "0%{visibility:hidden}50%{visibility:visible} visible" {
		t.Error(got)
	}
	if strings.Count(svg, ">stays<") != 1 || !strings.Contains(svg, "g{animation:10s step-end infinite}") {
		t.Errorf("what does not change is drawn again, or the time is wrong: %s", svg)
	}
	c.show(lines("too long"), longest)
	if _, err := c.render("a cast"); err == nil {
		t.Error("a moving picture may take any time")
	}
}
