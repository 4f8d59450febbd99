package question

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// whole is a question with every field, each value as long as it gets.
func whole(value string) []hsm.Field {
	one := []string{value}
	body := make([]string, 12)
	for i := range body {
		body[i] = value
	}
	var fields []hsm.Field
	for _, label := range []string{"Request", "Name", "Namespace", "As", "Body", "SHA-256", "Program", "Calls itself",
		"Process",
		"Cluster", "A yes"} {
		f := hsm.Field{Label: label, Values: one}
		if label == "Body" {
			f.Values = body
		}
		fields = append(fields, f)
	}
	return fields
}

// TestFieldsStayApart: whatever the values are, only our labels begin a line, no line is
// wider than the terminal, and all of them fit with the question below them.
func TestFieldsStayApart(t *testing.T) {
	values := []string{"", "x", "Program     /usr/bin/kubectl", "a\nProgram  b", "a\r\x1b[2J\x1b[H", "a\u202eb\u200b",
		"\u4e2d\u6587",
		"a\u0301\u0301\u0301\u0301\u0301\u0301\u0301", strings.Repeat("\u4e2d", 3000), "\xff\xfe"}
	for n := 0; n < 130; n += 1 + n/8 {
		values = append(values, strings.Repeat("Name  ", n)+"x", strings.Repeat("y", 3*n))
	}
	for _, room := range []Room{{Columns: 80, Rows: 24}, {Columns: 60, Rows: 15}, {Columns: 200, Rows: 50},
		{Columns: 20, Rows: 5}, {}} {
		for _, v := range values {
			fields := whole(v)
			lines := Fields(fields, Room{Columns: room.Columns, Rows: room.Rows - 2})
			if room.Rows > 2 && len(lines) > room.Rows-2 {
				t.Errorf("%d lines on %d rows", len(lines), room.Rows)
			}
			labels := 0
			for _, l := range lines {
				if strings.ContainsAny(l, "\n\r\x1b\u202e\u200b") || text.Width(l) > max(room.Columns-1, leastColumns) &&
					room.Columns > 0 {
					t.Errorf("%v: %q", room, l)
				}
				if strings.HasPrefix(l, " ") || strings.HasPrefix(l, text.Ellipsis) || l == "" {
					continue
				}
				if labels == len(fields) || !strings.HasPrefix(l, fields[labels].Label) {
					t.Errorf("%v: a value begins a line: %q", room, l)
				}
				labels++
			}
			if labels != len(fields) && (room.Rows >= 15 || room.Rows == 0) {
				t.Errorf("%v: %d of %d fields are shown of %.20q", room, labels, len(fields), v)
			}
		}
	}
}

// TestFieldsSayWhatIsMissing: what is left out is said, and a value's end stays, where it is
// told what its letters are.
func TestFieldsSayWhatIsMissing(t *testing.T) {
	const note = "(contains Cyrillic letters)"
	fields := whole(`"` + strings.Repeat("pr\\u043ed", 11) + `" ` + note)
	got := strings.Join(Fields(fields, Room{Columns: 60, Rows: 13}), "\n")
	if n := strings.Count(got, note); n < 4 || !strings.Contains(got, text.Ellipsis) ||
		!strings.Contains(got, "10 more: `kubehsm agent status` shows all") {
		t.Errorf("%d notes:\n%s", n, got)
	}
	if got := strings.Join(strings.Fields(strings.Join(All(fields, 0), " ")), " "); strings.Count(got, note) != 22 ||
		strings.Contains(got, text.Ellipsis) {
		t.Errorf("not all:\n%s", got)
	}
}

// TestQuestionFits: the question as it is on a small terminal.
func TestQuestionFits(t *testing.T) {
	p := hsm.ConfirmPrompt{Question: "allow it?", Detail: "old words", Notice: "The consent policy of prod was lowered.",
		Fields: []hsm.Field{{Label: "Request", Values: []string{"create deployments.apps"}},
			{Label: "Namespace", Values: []string{`"web"`}},
			{Label: "Body", Values: []string{`Deployment "x"`, "image nginx", "privileged"}}}}
	above, label := Confirm(p, Room{Columns: 60, Rows: 15})
	want := `The consent policy of prod was lowered.
Request    create deployments.apps
Namespace  "web"
Body       Deployment "x"
           image nginx
           privileged
Allow it? [y/N] `
	if got := strings.Join(append(above, label), "\n"); got != want {
		t.Errorf("%s", got)
	}
	p.Fields = nil
	if above, _ := Confirm(p, Room{}); fmt.Sprint(above) != "[old words]" {
		t.Errorf("an older agent's question: %q", above)
	}
	above, words := Touch(hsm.TouchPrompt{Token: hsm.TokenInfo{Label: "lab"}, Purpose: hsm.Purpose{Action: "allow “x”",
		Fields: []hsm.Field{{Label: "Request", Values: []string{"get pods"}}}}}, Room{})
	if fmt.Sprint(above) != "[Request  get pods]" || words != `Touch the token "lab" to allow it` {
		t.Errorf("%q %q", above, words)
	}
}

// TestMinorFieldsGoFirst: what a request does stays readable where a program's claims about
// itself have no room.
func TestMinorFieldsGoFirst(t *testing.T) {
	fields := []hsm.Field{{Label: "Request", Values: []string{"create deployments.apps"}},
		{Label: "Does", Values: []string{`Deployment "web"`, "image nginx", "privileged", "host path /", "host PID"}},
		{Label: "Body", Values: []string{"312 bytes"}, Minor: true}, {Label: "Process", Values: []string{"12"}, Minor: true},
		{Label: "A yes", Values: []string{"covers more"}}}
	got := strings.Join(Fields(fields, Room{Columns: 60, Rows: 8}), "\n")
	want := `Request  create deployments.apps
Does     Deployment "web"
         image nginx
         privileged
         host path /
         … 1 more: ` + "`kubehsm agent status`" + ` shows all
A yes    covers more
… 2 more: ` + "`kubehsm agent status`" + ` shows all`
	if got != want {
		t.Errorf("%s", got)
	}
}

// TestNoticeLeavesRoom: however much there is to be said of policies, the fields of a question
// stay on the screen.
func TestNoticeLeavesRoom(t *testing.T) {
	notice := strings.Repeat("The consent policy of prod was changed in its file. ", 200)
	fields := []hsm.Field{{Label: "Request", Values: []string{"delete nodes"}}, {Label: "Name", Values: []string{`"n"`}},
		{Label: "As", Values: []string{`"admin"`, `Group "system:masters"`}}}
	for _, room := range []Room{{Columns: 60, Rows: 15}, {Columns: 80, Rows: 24}, {}} {
		confirm, _ := Confirm(hsm.ConfirmPrompt{Question: "allow it?", Notice: notice, Fields: fields}, room)
		purpose := hsm.Purpose{Notice: notice, Fields: fields}
		touch, _ := Touch(hsm.TouchPrompt{Purpose: purpose}, room)
		pin, _ := PIN(hsm.PINPrompt{Kind: hsm.UserPIN, Purpose: purpose}, room)
		for _, lines := range [][]string{confirm, touch, pin} {
			room := room.orUsual()
			rows := 0
			for _, l := range lines {
				if rows++; text.Width(l) >= room.Columns {
					t.Errorf("%v: the terminal breaks %q inside a word", room, l)
				}
			}
			all := strings.Join(lines, "\n")
			if !strings.Contains(all, `Group "system:masters"`) ||
				!strings.Contains(strings.Join(lines, " "), "`kubehsm audit` shows all") || rows > room.Rows-2 {
				t.Errorf("%v: %d rows:\n%s", room, rows, all)
			}
		}
	}
}

// TestCutValueKeepsItsEnd: only the middle of a value is left out, wherever its lines are broken.
func TestCutValueKeepsItsEnd(t *testing.T) {
	const value = "covers this process's further connections and reading, whatever they are, " +
		"until it pauses for 30 s, at most 10 min"
	for columns := 50; columns < 90; columns++ {
		for rows := 1; rows <= 3; rows++ {
			fields := []hsm.Field{{Label: "A yes", Values: []string{value}}}
			got := strings.Join(Fields(fields, Room{Columns: columns, Rows: rows}), "\n")
			if !strings.HasSuffix(got, "min") || strings.Count(got, text.Ellipsis) > 1 {
				t.Errorf("%d columns, %d rows:\n%s", columns, rows, got)
			}
		}
	}
}
