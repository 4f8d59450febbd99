package present

import (
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Emergency is an enrollment for emergencies in a list.
type Emergency struct {
	Name, Kind, User, Cluster, Until string
	State                            Line
}

// EmergencyOf puts an enrollment for emergencies into a row.
func EmergencyOf(v desk.BreakGlassView) Emergency {
	e := Emergency{Name: text.Clean(v.Name), Kind: "break-glass", User: text.Clean(v.User), Cluster: text.Clean(v.Server),
		Until: Date(v.NotAfter), State: Line{Words: text.Clean(v.State)}}
	if v.State == "expired" {
		e.State.Level = Warn
	}
	return e
}

// Emergencies are the enrollments for emergencies that were made here.
func Emergencies(all []desk.BreakGlassView) []Section {
	if len(all) == 0 {
		return []Section{{Lines: []Line{{Words: "No emergency access is prepared here."}}}}
	}
	t := Table{Heading: []string{"NAME", "KIND", "USER", "CLUSTER", "UNTIL", "STATE"}}
	for _, v := range all {
		e := EmergencyOf(v)
		t.Rows = append(t.Rows, append(cells(e.Name, e.Kind, e.User, e.Cluster, e.Until), e.State))
	}
	return []Section{{Table: t}}
}

// TokenRow is a ticket or a bootstrap token in a list.
type TokenRow struct {
	Kind  string // "ticket" or "token"
	Token string // the token without its secret
	// Left says how long the token is still good, Expires until when.
	Left    Line
	Expires string
	// For is the user of a ticket with the groups, or what a token's maker wrote.
	For            string
	Usages, Groups string
}

// TokenRowOf puts a ticket or a bootstrap token into a row.
func TokenRowOf(t desk.BootstrapToken, now time.Time) TokenRow {
	r := TokenRow{Kind: "token", Token: text.Clean(t.Token), Expires: "never", For: Note(t.Description),
		Usages: text.Clean(strings.Join(t.Usages, ", ")), Groups: text.Clean(strings.Join(plainGroups(t.Groups), ", "))}
	if terms, err := ticket.ParseDescription(t.Description); err == nil {
		r.Kind, r.For = "ticket", Note(strings.Join(append([]string{terms.User}, terms.Groups...), ", "))
	}
	if t.Expires != nil {
		r.Expires = Date(*t.Expires)
	}
	r.Left.Words, r.Left.Level = stillGood(t.Expires, now)
	return r
}

// stillGood says how long something is still good; until is nil for what does not end.
func stillGood(until *time.Time, now time.Time) (string, Level) {
	if until == nil {
		return "forever", Warn
	}
	switch left := until.Sub(now); {
	case left <= 0:
		return "expired", Bad
	case left < 10*time.Minute:
		return Elapsed(left), Warn
	default:
		return Elapsed(left), Good
	}
}

// NoTokens is the sentence in place of an empty list of tickets and bootstrap tokens.
const NoTokens = "There is no ticket and no bootstrap token."

// AskTicket asks whether to make a ticket that could not work yet.
func AskTicket(against []string) hsm.ConfirmPrompt {
	return hsm.ConfirmPrompt{Question: "Make the ticket anyway?",
		Detail: "It would not work yet:\n" + text.CleanLines("- "+strings.Join(against, "\n- "))}
}

// Ticket says what a ticket is for. The ticket itself, a secret, is not in it.
func Ticket(t desk.IssuedTicket) []Section {
	s := Section{Facts: []Fact{
		{Name: "Ticket", Value: text.Clean(t.ID)},
		{Name: "For", Value: text.Clean(t.Terms.User)},
		{Name: "Groups", Value: text.Clean(strings.Join(t.Terms.Groups, ", "))},
		{Name: "Key", Value: text.Clean(t.Terms.Policy.String())},
		{Name: "Token", Value: text.Clean(t.Terms.Serial)},
		{Name: "Lifetime", Value: Lifetime(t.Terms.Lifetime)},
		{Name: "Ticket expires", Value: Date(t.Expires)},
	}}
	if t.Unproven == "" {
		return []Section{s}
	}
	return []Section{s, {Lines: []Line{
		{Words: "It seems that nobody can join with this ticket: " + text.Clean(t.Unproven), Level: Warn},
		{Words: "Tickets need kube-public/cluster-info as kubeadm makes it, readable by everybody, and the controllers " +
			"bootstrapsigner and tokencleaner.", Level: Warn},
	}}}
}

// What to do with a ticket.
const (
	TicketTheirs = "They type: kubehsm join --ticket -"
	TicketYours  = "You then: kubehsm helpdesk approve REQUEST"
)
