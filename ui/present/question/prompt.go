package question

import (
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// PIN returns the lines above the prompt for a secret, and the prompt itself.
func PIN(p hsm.PINPrompt, room Room) (above []string, label string) {
	p.Kind = hsm.PINKind(text.Clean(string(p.Kind)))
	if fields := p.Purpose.Fields; len(fields) > 0 {
		room = room.orUsual()
		room.Rows -= 4 // room for what may be said below
		above = About(p.Purpose.Notice, fields, room)
		p.Purpose = hsm.Purpose{Action: "allow it"}
	}
	above = append(above, wanted(p.Kind, p.Token, p.Purpose, p.New))
	if p.Again != "" {
		above = append(above, sentence(text.Clean(p.Again)))
	}
	if p.Purpose.Notice != "" {
		above = append(above, text.Wrap(text.Clean(p.Purpose.Notice), room.orUsual().Columns-1)...)
	}
	for _, note := range []string{Rule(p), Default(p), Few(p), Last(p)} {
		if note != "" {
			above = append(above, note)
		}
	}
	label = string(p.Kind)
	if p.New {
		return above, "New " + label + ": "
	}
	if n := p.TriesToTell(); n > 0 {
		label += " (" + hsm.TriesLeft(n) + ")"
	}
	return above, label + ": "
}

// wanted says what is wanted, of which token and for what.
func wanted(kind hsm.PINKind, t hsm.TokenInfo, p hsm.Purpose, fresh bool) string {
	if t.Scheme == "" && !fresh { // a ticket is no token's
		return "Paste the " + string(kind) + ", then Enter" + after(Why(p))
	}
	what := "Token " + Name(t) + " needs its " + string(kind)
	if fresh {
		what = "Choose a new " + string(kind) + " for token " + Name(t)
	}
	return what + after(Why(p))
}

// Touch returns the line that is shown while a touch, or a PIN on the reader, is awaited, and
// the lines above it.
func Touch(p hsm.TouchPrompt, room Room) (above []string, words string) {
	if p.Pad != "" {
		return nil, "Type the " + text.Clean(string(p.Pad)) + " on the reader of token " + Name(p.Token) +
			after(Why(p.Purpose))
	}
	if len(p.Purpose.Fields) > 0 {
		return About(p.Purpose.Notice, p.Purpose.Fields, room), "Touch the token " + Name(p.Token) + " to allow it"
	}
	if p.Purpose.Notice != "" { // above, since the line of the touch has no room for it
		above = text.Wrap(Notice(p.Purpose.Notice, room), room.orUsual().Columns-1)
	}
	return above, "Touch the token " + Name(p.Token) + after(Why(p.Purpose))
}

// About returns the lines about what is asked, with room for one line below them: a notice,
// which may be "", and fields.
func About(notice string, fields []hsm.Field, room Room) []string {
	room = room.orUsual()
	var above []string
	rows := room.Rows - 2 // the question, and the line that the cursor goes to with the answer
	if notice != "" {
		above = text.Wrap(Notice(notice, room), room.Columns-1)
		rows -= len(above)
	}
	room.Rows = max(rows, 1)
	return append(above, Fields(fields, room)...)
}

// Notice is what is said above fields, as text for a paragraph: a third of the screen at most,
// so that no program can have the fields moved off the screen by what it does.
func Notice(notice string, room Room) string {
	room = room.orUsual()
	const more = text.Ellipsis + " `kubehsm audit` shows all"
	notice = text.Clean(notice)
	// Lines end at words, each of which may leave some of a line.
	most := max(room.Columns*max(room.Rows/3, 1)*4/5, text.Width(more))
	if text.Width(notice) <= most {
		return notice
	}
	return text.Beginning(notice, most-text.Width(more)) + more
}

// Confirm returns the lines above the question, and the question itself.
func Confirm(p hsm.ConfirmPrompt, room Room) (above []string, label string) {
	switch {
	case len(p.Fields) > 0:
		above = About(p.Notice, p.Fields, room)
	case p.Detail != "":
		above = strings.Split(text.CleanLines(p.Detail), "\n")
	}
	asked := sentence(text.Clean(p.Question))
	switch {
	case p.ByTyping():
		if asked != "" {
			above = append(above, asked)
		}
		label = Type(p) + " "
	case p.DefaultYes:
		label = asked + " [Y/n" + details(p) + "] "
	default:
		label = asked + " [y/N" + details(p) + "] "
	}
	return above, label
}

// Details is the letter that shows the details of a question.
const Details = "d"

// details names that letter beside the answers, "" where there are no details.
func details(p hsm.ConfirmPrompt) string {
	if len(p.More) == 0 {
		return ""
	}
	return ", " + Details + " for details"
}

// after puts a clause after what stands before it.
func after(clause string) string {
	if clause == "" || clause[0] == ',' {
		return clause
	}
	return " " + clause
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
