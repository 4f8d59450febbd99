package present

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Anew says how to go on with enrollments whose keys were destroyed: a line each; none without
// commands.
func Anew(commands []string) []string {
	if len(commands) == 0 {
		return nil
	}
	lines := []string{"An enrollment does not sign in without its key. Make a new key:"}
	for _, c := range commands {
		lines = append(lines, "  "+text.Clean(c))
	}
	return lines
}

// Renamed says that a card has another identity, a line each; none if r is nil.
func Renamed(r *token.Renamed) []string {
	if r == nil {
		return nil
	}
	lines := []string{"The card has a new identity now: " + text.Clean(r.Now.String()) + "; it was " +
		text.Clean(r.Was.String()) + "."}
	if r.Now.Serial == "" {
		lines[0] = "The card has no identity now and gets one with its first key; it was " + text.Clean(r.Was.String()) + "."
	}
	if len(r.Enrollments) > 0 {
		lines = append(lines, "These enrollments point at the old one, and their keys are destroyed: "+
			text.Clean(strings.Join(r.Enrollments, ", "))+". Enroll again:")
	}
	for _, c := range r.Commands {
		lines = append(lines, "  "+text.Clean(c))
	}
	return lines
}
