// Package present puts states into words: facts, sections and verdicts with a level,
// which the command line prints as lines and tables and the terminal UI draws as
// styled rows. What both of them say is worded here and nowhere else.
//
// It knows what the layers below it know and nothing of how a thing is drawn: no
// command line, no terminal, no colour. All that it returns is clean text.
package present

import (
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/ui/text"
)

// Level says how good or bad a state is.
type Level int

// The levels, the worst last.
const (
	Quiet Level = iota
	Good
	Warn
	Bad
)

// Fact is something that is known: "Serial", "12345678". One without a value is left
// out where it is shown.
type Fact struct {
	Name, Value string
	Level       Level
	// Note is what has to be said of it beside, a sentence with the next step, "" for
	// nothing.
	Note string
}

// Section is what belongs together, under a title that may be empty.
type Section struct {
	Title string
	Facts []Fact
	Lines []Line
	Table Table
}

// Table is what there is of one kind, a row each.
type Table struct {
	Heading []string
	Rows    [][]Line // a cell for each column
	// Minor are the headings of the columns that a narrow terminal leaves out, the least important first.
	Minor []string
	// Lead has what is said before the cells of a column where a row is a sentence,
	// which shows no heading.
	Lead map[int]string
}

// Line is a sentence, an item of a list, or a cell of a table.
type Line struct {
	Words string
	Level Level
}

// Unasked says that a cluster is not read because a look asks nobody: why, what is shown instead, and how to
// see what, such as "the cluster's requests".
func Unasked(why, shown, what string) []Line {
	why = text.Clean(why)
	first := strings.ToUpper(why[:min(len(why), 1)]) + why[min(len(why), 1):] + "."
	if shown != "" {
		first += " " + shown
	}
	return []Line{{Words: first, Level: Warn}, {Words: "U unlocks the token and reads " + what + "."}}
}

// SeenAt says that what was read last is shown.
func SeenAt(at time.Time) string { return "As of " + at.Local().Format("15:04") + "." }

// NotedIn are the notes of facts, in their order.
func NotedIn(facts []Fact) []string {
	var notes []string
	for _, f := range facts {
		if f.Note != "" {
			notes = append(notes, f.Note)
		}
	}
	return notes
}

// cells makes a row of cells that have no level.
func cells(words ...string) []Line {
	row := make([]Line, len(words))
	for i, w := range words {
		row[i].Words = w
	}
	return row
}

// linesOf makes lines of what others wrote or named, all of one level.
func linesOf(lead string, all []string, l Level) []Line {
	var lines []Line
	for _, s := range all {
		lines = append(lines, Line{Words: lead + Note(s), Level: l})
	}
	return lines
}

// join joins what is not empty.
func join(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}
