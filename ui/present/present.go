// Package present puts states into words: facts, sections and verdicts with a level,
// which the command line prints as lines and tables and the terminal UI draws as
// styled rows. What both of them say is worded here and nowhere else.
//
// It knows what the layers below it know and nothing of how a thing is drawn: no
// command line, no terminal, no colour. All that it returns is clean text.
package present

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
