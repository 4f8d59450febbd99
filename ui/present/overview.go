package present

import (
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/overview"
	"github.com/kubehsm/kubehsm/ui/text"
)

// The titles of the parts of an overview.
const (
	ProblemsTitle = "Problems"
	AskedTitle    = "Waiting for you"
	EndsTitle     = "Certificates"
	UnderWayTitle = "Enrollments in progress"
)

// The names of facts of an overview.
const (
	ClusterFact    = "Cluster"
	InterfacesFact = "Terminal UIs"
)

// Overview says where a person stands, problems first.
func Overview(s overview.Status, now time.Time) []Section {
	var all []Section
	add := func(title string, lines []Line) {
		if len(lines) > 0 {
			all = append(all, Section{Title: title, Lines: lines})
		}
	}
	add(ProblemsTitle, OverviewProblems(s))
	add(AskedTitle, AskedNow(s))
	all = append(all, Section{Facts: OverviewFacts(s, now)})
	if len(s.Certificates) > 0 {
		t := Table{Heading: []string{"CERTIFICATE OF", "UNTIL", "STATE"}}
		for _, c := range s.Certificates {
			t.Rows = append(t.Rows, append(cells(text.Clean(c.Name), Date(c.NotAfter)), Ends(c, now)))
		}
		all = append(all, Section{Table: t})
	}
	add(UnderWayTitle, UnderWay(s, now))
	if s.Next.Command != "" {
		add(NextTitle, linesOf("", []string{text.Clean(s.Next.Command)}, Quiet))
	}
	return all
}

// OverviewProblems are what could not be read, or what the agent fails at.
func OverviewProblems(s overview.Status) []Line { return linesOf("", s.Problems, Warn) }

// AskedNow are the questions that wait for a person, wherever they are asked.
func AskedNow(s overview.Status) []Line {
	var lines []string
	for _, w := range s.Asked {
		lines = append(lines, w.Question("", text.Clean))
	}
	for _, c := range s.Requests {
		lines = append(lines, text.Clean(c.Enrollment)+" "+AwaitsYes(c.Request))
	}
	return linesOf("", lines, Quiet)
}

// OverviewFacts say who kubectl is now.
func OverviewFacts(s overview.Status, now time.Time) []Fact {
	current := Fact{Name: "Context", Value: ContextWords(s)}
	if s.Context != "" && s.Enrollment == "" {
		current.Value += ", not kubehsm's"
	}
	who := text.Clean(s.User)
	if len(s.Groups) > 0 {
		who += ", in " + text.Clean(strings.Join(s.Groups, ", "))
	}
	open := ""
	if s.Interfaces > 1 {
		open = fmt.Sprintf("%d open; questions appear in the one that was opened last", s.Interfaces)
	}
	return []Fact{current, {Name: "User", Value: who}, {Name: ClusterFact, Value: text.Clean(s.Server)},
		{Name: "Token", Value: lockWords(s, now), Level: LockLevel(s)}, {Name: InterfacesFact, Value: open}}
}

// ContextWords name the current context.
func ContextWords(s overview.Status) string {
	if s.Context == "" {
		return "none"
	}
	return text.Clean(s.Context)
}

// LockLevel is how good the state of the token of the current context is.
func LockLevel(s overview.Status) Level {
	switch s.Lock {
	case overview.Unlocked:
		return Good
	case overview.Unknown, overview.Absent:
		return Warn
	}
	return Quiet
}

// LockBrief is the state of the token of the current context where there is little room, or
// that the context signs in by something else.
func LockBrief(s overview.Status, now time.Time) string {
	switch {
	case s.Lock == "":
		return "not kubehsm's"
	case s.Lock == overview.Unlocked && !s.Until.IsZero():
		return "unlocked " + span.Of(s.Until.Sub(now))
	}
	return lockState(s)
}

// lockState is the state of the token of the current context in a word or a clause.
func lockState(s overview.Status) string {
	if s.Lock == overview.Absent && len(s.Keys) > 0 {
		return s.Keys[0].Key.Place().Absent()
	}
	return string(s.Lock)
}

// Ends says how long a certificate is still good.
func Ends(c enroll.Expiring, now time.Time) Line {
	left := c.NotAfter.Sub(now)
	switch {
	case c.Err != nil:
		return Line{Words: "cannot be read", Level: Bad}
	case left <= 0:
		return Line{Words: "expired", Level: Bad}
	case c.Due:
		return Line{Words: "ends in " + span.Of(left) + ": renew it", Level: Warn}
	}
	return Line{Words: "ends in " + span.Of(left), Level: Good}
}

// UnderWay are the enrollments that were begun and not finished.
func UnderWay(s overview.Status, now time.Time) []Line {
	var lines []string
	for _, u := range s.Unfinished {
		what := text.Clean(u.Name)
		if u.Renewal {
			what = "renewal of " + what
		}
		lines = append(lines, what+", since "+Age(now.Sub(u.Since))+"; next step: "+u.Waits.Title())
	}
	return linesOf("", lines, Quiet)
}

// StepTitle says what the next step is, as the name of a key, "" if there is none.
func StepTitle(s overview.Step) string {
	name := text.Clean(s.Name)
	switch s.Deed {
	case overview.Enroll:
		return "enroll a key"
	case overview.Resume:
		return "continue " + name
	case overview.Renew:
		return "renew " + name
	case overview.Reenter:
		return "enroll " + name + " again"
	case overview.Examine:
		return "see what is wrong"
	}
	return ""
}

// lockWords says whether the token of the current context can be used without a PIN.
func lockWords(s overview.Status, now time.Time) string {
	words := lockState(s)
	if s.Lock == overview.Unlocked && !s.Until.IsZero() {
		words += ", " + span.Of(s.Until.Sub(now)) + " more if not used"
	}
	return words
}

// OverviewShort is one line for a shell prompt: the current context, the state of its token,
// and what wants attention.
func OverviewShort(s overview.Status, now time.Time) string {
	if s.Enrollment == "" {
		return ""
	}
	words := text.Clean(s.Context) + " " + lockState(s)
	for _, c := range s.Certificates {
		if c.Name == s.Enrollment && c.Due {
			left := "expired"
			if now.Before(c.NotAfter) {
				left = "renew in " + Age(c.NotAfter.Sub(now))
			}
			words += ", " + left
		}
	}
	if len(s.Problems) > 0 {
		words += " !"
	}
	return words
}
