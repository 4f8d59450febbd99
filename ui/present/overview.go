package present

import (
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/ui/flow/overview"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Overview says where a person stands, problems first.
func Overview(s overview.Status, now time.Time) []Section {
	var all []Section
	if len(s.Problems) > 0 {
		all = append(all, Section{Title: "Problems", Lines: linesOf("", s.Problems, Warn)})
	}
	current := Fact{Name: "Context", Value: text.Clean(s.Context)}
	switch {
	case s.Context == "":
		current.Value = "none"
	case s.Enrollment == "":
		current.Value += ", which kubehsm does not sign in"
	}
	who := text.Clean(s.User)
	if len(s.Groups) > 0 {
		who += ", in " + text.Clean(strings.Join(s.Groups, ", "))
	}
	all = append(all, Section{Facts: []Fact{current, {Name: "User", Value: who},
		{Name: "Cluster", Value: text.Clean(s.Server)}, {Name: "Token", Value: lockWords(s, now)}}})
	if len(s.Certificates) > 0 {
		t := Table{Heading: []string{"CERTIFICATE OF", "UNTIL", "STATE"}}
		for _, c := range s.Certificates {
			state, level := "cannot be read", Bad
			switch {
			case c.Err != nil:
			case now.After(c.NotAfter):
				state = "expired"
			case c.Due:
				state, level = "ends in "+Span(c.NotAfter.Sub(now))+": renew it", Warn
			default:
				state, level = "ends in "+Span(c.NotAfter.Sub(now)), Good
			}
			t.Rows = append(t.Rows, append(cells(text.Clean(c.Name), Date(c.NotAfter)), Line{Words: state, Level: level}))
		}
		all = append(all, Section{Table: t})
	}
	if len(s.Unfinished) > 0 {
		var lines []string
		for _, u := range s.Unfinished {
			lines = append(lines, text.Clean(u.Name)+": next is to "+u.Waits.Title()+", since "+Age(now.Sub(u.Since)))
		}
		all = append(all, Section{Title: "Enrollments under way", Lines: linesOf("", lines, Quiet)})
	}
	if s.Next != "" {
		all = append(all, Section{Title: NextTitle, Lines: linesOf("", []string{text.Clean(s.Next)}, Quiet)})
	}
	return all
}

// lockWords says whether the token of the current context can be used without a PIN.
func lockWords(s overview.Status, now time.Time) string {
	words := string(s.Lock)
	if s.Lock == overview.Unlocked && !s.Until.IsZero() {
		words += ", " + Span(s.Until.Sub(now)) + " more if not used"
	}
	return words
}

// OverviewShort is one line for a shell prompt: the current context, the state of its token,
// and what wants attention.
func OverviewShort(s overview.Status, now time.Time) string {
	if s.Enrollment == "" {
		return ""
	}
	words := text.Clean(s.Context) + " " + string(s.Lock)
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
