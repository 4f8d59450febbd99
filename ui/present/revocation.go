package present

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Revocation says what a user has in a cluster: what can be removed, what stays, and
// what is not known.
func Revocation(r desk.Revocation) []Section {
	var sections []Section
	for _, s := range []Section{
		{Title: "Can be removed", Lines: removable(r)},
		{Title: "Stays", Lines: staying(r)},
		{Title: "Not known", Lines: append(linesOf("", r.Unseen, Warn), linesOf("", r.Unknown, Quiet)...)},
	} {
		if len(s.Lines) > 0 {
			sections = append(sections, s)
		}
	}
	if r.Stop != nil && len(r.Stop.Warnings) > 0 {
		sections = append(sections, Section{Title: "Mind", Lines: linesOf("", r.Stop.Warnings, Warn)})
	}
	if len(removable(r))+len(staying(r)) > 0 {
		return sections
	}
	found := fmt.Sprintf("Nothing was found for %q in this cluster", r.User)
	if len(r.Unseen) > 0 {
		found += ", as far as you may look"
	}
	return append([]Section{{Lines: []Line{{Words: text.Clean(found) + "."}}}}, sections...)
}

func removable(r desk.Revocation) []Line {
	lines := linesOf("retired on the roster, and gets no further certificate: token ", r.Tokens, Quiet)
	for _, b := range r.Bindings {
		lines = append(lines, Line{Words: text.Clean(b.String())})
	}
	lines = append(lines, linesOf("pending request ", r.Pending, Quiet)...)
	for _, name := range r.Approved {
		lines = append(lines, Line{Words: "approved request " + text.Clean(name) + ", not signed yet"})
	}
	if r.Stops() {
		for _, t := range r.Stop.Allowed().Targets {
			words := certificateNamed(t) + ": kept from writing; it can still read until then"
			if t.Request != "" {
				words = "of request " + t.Request + ", " + words
			}
			lines = append(lines, Line{Words: text.Clean(words)})
		}
	}
	if r.Stop != nil {
		lines = append(lines, linesOf("not revoked: ", r.Stop.Refusals, Bad)...)
	}
	return append(lines, linesOf("ticket ", r.Tickets, Quiet)...)
}

func staying(r desk.Revocation) []Line {
	var lines []Line
	for _, c := range r.Certificates {
		if r.StopsCertificate(c) { // it is among what can be removed
			continue
		}
		words := "certificate"
		if c.Request != "" {
			words += " of request " + c.Request
		}
		if len(c.Groups) > 0 {
			words = join(words, "groups "+strings.Join(c.Groups, ", "))
		}
		if words += ", until " + Date(c.NotAfter); r.RevokedAlready(c) {
			words += ": revoked already; it can still read until then"
		}
		lines = append(lines, Line{Words: text.Clean(words)})
	}
	for _, b := range r.GroupBindings {
		lines = append(lines, Line{Words: text.Clean(fmt.Sprintf("by the group %q, %s", b.Subject, b))})
	}
	return lines
}

// RevocationQuestion is the question before access is taken away.
func RevocationQuestion(r desk.Revocation) string {
	if r.Removable() {
		return "Remove, deny and end these?"
	}
	return "Record the revocation?"
}

// Revoked says what became of a revocation, and what nobody can take away.
func Revoked(r desk.Revocation) []Section {
	done := linesOf("done: ", r.Done, Quiet)
	if !r.Removable() {
		done = append(done, Line{Words: "There was nothing to remove."})
	}
	revoked := 0
	for _, c := range r.Certificates {
		if r.Revoked(c) {
			revoked++
		}
	}
	done = append(done, Line{Words: fmt.Sprintf("Certificates revoked: %d.", revoked)})
	done = append(done, linesOf("failed: ", r.Failed, Bad)...)
	done = append(done, linesOf("not done: ", r.Unseen, Warn)...)
	done = append(done, linesOf("not known: ", r.Unknown, Quiet)...)
	return []Section{{Lines: done}, {Title: "What remains", Lines: remaining(r)}}
}

func remaining(r desk.Revocation) []Line {
	var lines []Line
	if until := r.Until(true); !until.IsZero() {
		lines = append(lines, Line{Words: text.Clean(fmt.Sprintf("The revoked certificates still read until %s. "+
			"Whoever has the token and its PIN is still %q.", Date(until), r.User))})
	}
	if until := r.Until(false); !until.IsZero() {
		lines = append(lines, Line{Words: text.Clean(fmt.Sprintf("Certificates that are not revoked write and read "+
			"until %s: whoever has the token and its PIN is still %q.", Date(until), r.User)), Level: Warn})
	}
	if len(lines) == 0 {
		lines = []Line{{Words: "No live certificate is known; one that is not known cannot be revoked either."}}
	}
	if r.Stop != nil {
		lines = append(lines, reach(*r.Stop)[1:]...)
		if r.Stop.Done != nil {
			lines = append([]Line{Enforced(*r.Stop.Done)}, lines...)
		}
	}
	for _, b := range r.GroupBindings {
		words := fmt.Sprintf("Through the group %q they still have %s (%s): take the group's binding away, if nobody "+
			"else needs it.",
			b.Subject, b.Role, b.Name)
		lines = append(lines, Line{Words: text.Clean(words)})
	}
	return append(lines, Line{Words: "If all access must end at once, see `kubehsm rbac print --revocation-authorizer`; " +
		"elsewhere the cluster's client authority has to be replaced."})
}
