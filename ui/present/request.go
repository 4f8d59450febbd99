package present

import (
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/text"
)

// What others write is shown this far, in columns, lest it push the rest out of
// sight; documents have all of it.
const (
	maxNote = 1000
	maxCell = 64
)

// foreign is what somebody else wrote, cut for a cell of a list.
func foreign(s string) string { return text.Truncate(text.Clean(s), maxCell) }

// Note is what somebody else wrote, cut where it would push the rest out of sight.
func Note(s string) string { return text.Truncate(text.Clean(s), maxNote) }

// Verdicts are what speaks against a request: what refuses it first.
func Verdicts(v request.View) []Line {
	var lines []Line
	for _, r := range v.Refusals {
		lines = append(lines, Line{Words: Note(r), Level: Bad})
	}
	for _, w := range v.Warnings {
		lines = append(lines, Line{Words: Note(w), Level: Warn})
	}
	return lines
}

// Warned are what an approver is warned of, see [request.View.Warned].
func Warned(v request.View) []string {
	lines := Verdicts(v)
	if !v.Attested {
		lines = append(lines, keyOf(v).Lines...)
	}
	words := make([]string, len(lines))
	for i, l := range lines {
		words[i] = l.Words
	}
	return words
}

// Request is a request as an approver should see it, without its name and
// [Verdicts].
func Request(v request.View, now time.Time) []Section {
	return []Section{{Facts: requestFacts(v, now)}, keyOf(v), allowedBy(v)}
}

// Filed is a request that was just filed, which nobody has looked into yet.
func Filed(v request.View, now time.Time) []Section {
	return []Section{{Facts: append(requestFacts(v, now), keyOf(v).Facts...)}}
}

func requestFacts(v request.View, now time.Time) []Fact {
	state := text.Clean(v.State)
	if v.Reason != "" {
		state += " (" + foreign(v.Reason) + ")"
	}
	ticketFor, groups, filed, lifetime := "", v.RequesterGroups, "", text.Clean(v.Expiration)
	if d, err := time.ParseDuration(v.Expiration); err == nil {
		lifetime = Lifetime(d)
	}
	if v.Ticket != nil {
		ticketFor, groups = request.TermsWords(*v.Ticket), plainGroups(groups)
	}
	if !v.Created.IsZero() {
		filed = Date(v.Created) + " (" + Age(now.Sub(v.Created)) + " ago)"
	}
	list := func(all []string) string { return Note(strings.Join(all, ", ")) }
	return []Fact{
		{Name: "State", Value: state},
		{Name: "Message", Value: Note(v.Message)},
		{Name: "For user", Value: text.Clean(v.User)},
		{Name: "Groups", Value: list(v.Groups)},
		{Name: "Also for", Value: list(v.AltNames)},
		{Name: "Asked by", Value: join(text.Clean(v.Requester), text.Clean(v.RequesterKind))},
		{Name: "In groups", Value: list(groups)},
		{Name: "Ticket for", Value: Note(ticketFor)},
		{Name: "Says", Value: Note(v.Note)},
		{Name: "Lifetime", Value: lifetime},
		{Name: "Filed", Value: filed},
		{Name: "Signer", Value: text.Clean(v.SignerName)},
		{Name: "Usages", Value: list(v.Usages)},
	}
}

// keyOf says where the key of a request lives, and what that rests on.
func keyOf(v request.View) Section {
	s := Section{Title: "Where the key is", Facts: []Fact{
		{Name: "Key", Value: text.Clean(v.Key)},
		{Name: "Fingerprint", Value: text.Clean(v.Fingerprint)},
		{Name: "In words", Value: text.Clean(strings.Join(v.Words, " "))},
	}}
	switch {
	case v.Attestation == "":
		s.Lines = []Line{{Words: "Nothing proves that a token holds it: it may be a file, with copies.", Level: Warn}}
	case !v.Attested:
		s.Lines = []Line{{Words: text.Clean(v.Attestation), Level: Warn}}
	default:
		s.Lines = []Line{{Words: text.Clean(v.Attestation)}}
	}
	return s
}

// allowedBy says what the certificate would allow.
func allowedBy(v request.View) Section {
	s := Section{Title: "What the certificate would allow"}
	for _, r := range v.Rights {
		s.Lines = append(s.Lines, Line{Words: text.Clean(r)})
	}
	switch {
	case len(v.RightsUnknown) > 0:
		s.Lines = append(s.Lines, Line{Words: "could not be looked up: " + text.Clean(strings.Join(v.RightsUnknown, "; ")),
			Level: Warn})
	case len(v.Rights) == 0:
		s.Lines = []Line{{Words: "nothing beyond what every signed-in user may do"}}
	}
	return s
}

// Decision returns the question before a request is approved or denied, and a sentence with
// the consequence.
func Decision(v request.View, approve bool) (question, consequence string) {
	if approve {
		who := v.User
		if len(v.Groups) > 0 {
			who += " in " + strings.Join(v.Groups, ", ")
		}
		return "Approve it?", Note("A certificate for " + who + " is made for the key in this request.")
	}
	return "Deny it, for good?", Note("The certificate for " + v.User + " is not made. A decision cannot be taken back.")
}

// RequestLevel is how good the state of a request is.
func RequestLevel(state string) Level {
	switch state {
	case csr.Pending.String():
		return Warn
	case csr.Issued.String():
		return Good
	}
	return Quiet
}

// RequestRow is a request in a list.
type RequestRow struct {
	Age, State, Requester, User, Groups, Name, Signer string
}

// RequestRowOf puts a request into a row.
func RequestRowOf(v request.View, now time.Time) RequestRow {
	return RequestRow{Age: Age(now.Sub(v.Created)), State: text.Clean(v.State), Requester: foreign(v.Requester),
		User:   foreign(v.User),
		Groups: foreign(strings.Join(v.Groups, ", ")), Name: text.Clean(v.Name), Signer: text.Clean(v.SignerName)}
}

// NoRequests is said where there are none.
const NoRequests = "There are no requests."

// plainGroups leaves out the groups that carry a ticket's terms, which are said in
// words.
func plainGroups(groups []string) []string {
	return slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return strings.HasPrefix(g, ticket.TermsPrefix) })
}
