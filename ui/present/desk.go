package present

import (
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/renewals"
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

// Roles compares a cluster's roles and policies with those that it needs.
func Roles(all []desk.RBACObject) Section {
	var says []Line
	t := Table{Heading: []string{"STATE", "SET", "OBJECT"}}
	for _, o := range all {
		if o.Says != "" {
			says = append(says, Line{Words: text.Clean(o.Says) + "."})
		}
		state := Line{Words: text.Clean(string(o.State))}
		switch o.State {
		case desk.RBACMissing, desk.RBACDiffers, desk.RBACForbidden:
			state.Level = Warn
		case desk.RBACUnserved:
			state.Level = Bad
		}
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + name
		}
		// A narrow terminal breaks it between kind and name.
		t.Rows = append(t.Rows, append([]Line{state}, cells(text.Clean(o.Set), text.Clean(o.Kind+" "+name))...))
	}
	return Section{Table: t, Lines: says}
}

// Rights says which duties somebody may perform.
func Rights(all []desk.RBACRight) Section {
	var s Section
	for _, r := range all {
		may := "you may not "
		if r.Allowed {
			may = "you may "
		}
		s.Lines = append(s.Lines, Line{Words: text.Clean(may + r.Duty + " (" + r.Needs + ")")})
	}
	return s
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

// Obstacles says whether a ticket can work in a cluster, and why not.
func Obstacles(against []string) Section {
	s := Section{Title: "Whether a ticket can work", Lines: linesOf("", against, Warn)}
	if len(against) == 0 {
		s.Lines = []Line{{Words: "yes, as far as can be seen from here", Level: Good}}
	}
	return s
}

// Lacks says what the approver may not do; nothing if it lacks no right.
func Lacks(all []string) []Section {
	if len(all) == 0 {
		return nil
	}
	return []Section{{Title: "What the approver lacks", Lines: linesOf("", all, Warn)}}
}

// maxBarred bounds whom [Barred] names.
const maxBarred = 3

// Barred says who on the roster may not renew their certificates; nothing if all were looked at and may.
func Barred(b renewals.Barred) []Section {
	var all []string
	for _, g := range b.Groups {
		all = append(all, "group "+Note(g))
	}
	for _, u := range b.Users {
		all = append(all, "user "+Note(u))
	}
	const title = "Who on the roster cannot renew"
	switch {
	case len(all) == 0 && b.Unasked == 0:
		return nil
	case len(all) == 0:
		return []Section{{Title: title, Lines: []Line{{Level: Warn,
			Words: "nobody was found; " + Count(b.Unasked, "token") + " not looked at"}}}}
	}
	if more := len(all) - maxBarred; more > 0 {
		all = append(all[:maxBarred], strconv.Itoa(more)+" more")
	}
	words := "may not file requests: " + strings.Join(all, ", ")
	if b.Unasked > 0 {
		words += " (" + Count(b.Unasked, "token") + " not looked at)"
	}
	return []Section{{Title: title, Lines: []Line{{Words: words, Level: Bad}}}}
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
