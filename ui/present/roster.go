package present

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/text"
)

// RosterRow is a token of the roster in a list.
type RosterRow struct {
	Serial, Owner, Groups, Horizon, Model string
	// Stage is how far the token is, Good how long its certificate is still good, and Why what its owner was
	// told of a request that was denied.
	Stage, Good Line
	Why         string
}

// RosterRowOf puts a token into a row.
func RosterRowOf(e desk.RosterEntry, now time.Time) RosterRow {
	r := RosterRow{Serial: text.Clean(e.Serial), Owner: text.Clean(e.Owner),
		Groups: text.Clean(strings.Join(e.Groups, ", ")), Model: text.Clean(e.Model), Why: Note(e.Why),
		Stage: Line{Words: string(e.Stage), Level: stageLevel(e.Stage)}, Good: Line{Words: "none yet"}}
	if e.Stage == "" { // entries of a list that is not on the roster yet
		r.Stage.Words, r.Good.Words = text.Clean(e.State), ""
	}
	if e.NotAfter != nil {
		switch left := e.NotAfter.Sub(now); {
		case left <= 0:
			r.Good = Line{Words: "expired", Level: Bad}
		case left <= desk.ExpiringWithin:
			r.Good = Line{Words: span.Of(left), Level: Warn}
		default:
			r.Good = Line{Words: span.Of(left), Level: Good}
		}
	}
	if e.Horizon != nil {
		r.Horizon = Date(*e.Horizon)
	}
	return r
}

func stageLevel(s desk.Stage) Level {
	switch s {
	case desk.StageDenied, desk.StageExpired, desk.StageLost:
		return Bad
	case desk.StageWaiting, desk.StageExpiring:
		return Warn
	case desk.StageIn:
		return Good
	}
	return Quiet
}

// Roster is a list of tokens with their owners, how far they are, and until when their certificates are good;
// columns in which nothing is said are left out.
func Roster(all []desk.RosterEntry, now time.Time) Section {
	t := Table{Heading: []string{"SERIAL", "OWNER", "GROUPS", "STATE", "STILL GOOD", "HORIZON", "MODEL", "WHY"},
		Minor: []string{"MODEL", "HORIZON", "GROUPS"}}
	said := map[int]bool{}
	for _, e := range all {
		r := RosterRowOf(e, now)
		row := append(cells(r.Serial, r.Owner, r.Groups), r.Stage, r.Good)
		row = append(row, cells(r.Horizon, r.Model, r.Why)...)
		for i, c := range row {
			said[i] = said[i] || c.Words != ""
		}
		t.Rows = append(t.Rows, row)
	}
	for i := len(t.Heading) - 1; i >= 0; i-- {
		if said[i] {
			continue
		}
		t.Heading = slices.Delete(t.Heading, i, i+1)
		for k, row := range t.Rows {
			t.Rows[k] = slices.Delete(row, i, i+1)
		}
	}
	return Section{Table: t}
}

// Stages counts the tokens of a board by their stages: "20 tokens: 2 waiting, 3 not come, 15 in".
func Stages(b desk.Board) string {
	count := map[desk.Stage]int{}
	for _, e := range b.Tokens {
		count[e.Stage]++
	}
	var parts []string
	for _, s := range desk.Stages() {
		if n := count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return NoRoster
	}
	return Count(len(b.Tokens), "token") + ": " + strings.Join(parts, ", ")
}

// NoRoster is the sentence in place of an empty roster.
const NoRoster = "No token is on the roster."

// RosterUnknown says that requests were not looked at, for the reason why.
func RosterUnknown(why string) Line {
	return Line{Words: "Nobody is shown as waiting or denied: " + text.Clean(why) + ".", Level: Warn}
}

// ImportQuestion asks whether to write a list of n tokens on the roster.
func ImportQuestion(n int) string { return "Write " + Count(n, "token") + " on the roster?" }

// Leaving is what ends when people leave.
func Leaving(l desk.Leaving, now time.Time) []Section {
	sections := []Section{Roster(l.Tokens, now)}
	if lines := append(linesOf("ends: ticket ", l.Tickets, Quiet), linesOf("not known: ", l.Unseen, Warn)...); len(lines) > 0 {
		sections = append(sections, Section{Title: "Tickets", Lines: lines})
	}
	return sections
}

// RosterQuestion asks whether to end the renewals of tokens.
func RosterQuestion(all []desk.RosterEntry, lost bool) string {
	state := "retired"
	if lost {
		state = "lost"
	}
	return "Mark " + Count(len(all), "token") + " as " + state + "?"
}

// RosterRemoved says what it means that tokens were removed.
const RosterRemoved = "A key in such a token gets no further certificate. A certificate that was already issued is " +
	"valid until it expires: kubehsm helpdesk revoke stops its writes at once."

// Proven are requests that prove what they claim, in a list.
func Proven(all []request.View, now time.Time) Section {
	t := Table{Heading: []string{"NAME", "AGE", "FOR USER", "GROUPS", "TOKEN", "LIFETIME", "PROVEN"}}
	for _, v := range all {
		r := RequestRowOf(v, now)
		proof, lifetime := "renewal", time.Duration(0)
		if v.Ticket != nil {
			proof = "by its ticket"
		}
		if d, err := time.ParseDuration(v.Expiration); err == nil {
			lifetime = d
		}
		t.Rows = append(t.Rows, cells(r.Name, r.Age, r.User, r.Groups, text.Clean(v.Serial), Lifetime(lifetime), proof))
	}
	return Section{Table: t}
}

// ProvenQuestion asks whether to approve n requests together.
func ProvenQuestion(n int) string { return "Approve " + Count(n, "request") + "?" }

// ProvenApprovals says what became of requests that were approved together, and that left others need a
// closer look.
func ProvenApprovals(done []desk.ProvenApproval, left int) Section {
	var s Section
	for _, p := range done {
		name := text.Clean(p.Request) + " for " + text.Clean(p.User)
		if p.Problem != "" {
			s.Lines = append(s.Lines, Line{Words: name + ": not approved: " + text.Clean(p.Problem), Level: Bad})
			continue
		}
		s.Lines = append(s.Lines, Line{Words: name + ": approved", Level: Good})
		s.Lines = append(s.Lines, linesOf("note: ", p.Notes, Warn)...)
	}
	if len(done) == 0 {
		s.Lines = append(s.Lines, Line{Words: "No pending request proves what it claims."})
	}
	if left > 0 {
		need := " need a closer look: "
		if left == 1 {
			need = " needs a closer look: "
		}
		s.Lines = append(s.Lines, Line{Words: Count(left, "request") + need + "kubehsm csr list --pending"})
	}
	return s
}
