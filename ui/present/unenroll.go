package present

import (
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/text"
)

// UnenrollQuestion is the question before an enrollment is removed. It repeats the name,
// since the sections of [Unenroll] may be out of sight by then.
func UnenrollQuestion(u contexts.Unenrollment) string {
	if len(u.Stay) > 0 {
		return "Remove the key of " + text.Clean(u.Enrollment.Name) + " on " + text.Clean(u.Enrollment.Key.TokenName()) + "?"
	}
	return "Remove the enrollment " + text.Clean(u.Enrollment.Name) + "?"
}

// Unenroll says which enrollment or key would be removed, what goes with it and what stays, and what a help desk
// needs to know where the token was lost.
func Unenroll(u contexts.Unenrollment) []Section {
	what := "The kubeconfig entry, the record and the certificates here are removed."
	if len(u.Stay) > 0 {
		what = "The record of the key and its certificate here are removed. The context stays."
	}
	lines := []Line{{Words: what + " The key stays on the token, and its certificate stays valid until it ends."}}
	if len(u.SameKey) > 0 {
		lines = append(lines, Line{Words: "Enrollments with the same key stay: " + text.Clean(strings.Join(u.SameKey, ", "))})
	}
	key := u.Enrollment.Key
	sections := []Section{{
		Lines: lines,
		Facts: []Fact{
			{Name: "Enrollment", Value: text.Clean(u.Enrollment.Name)},
			{Name: "Cluster", Value: text.Clean(u.Enrollment.Cluster.Server)},
			{Name: "User", Value: text.Clean(u.Enrollment.User)},
			{Name: "Key", Value: KeyName(key) + " on " + text.Clean(key.TokenName())},
			{Name: "Removed too", Value: keysOf(u.Spares)},
			{Name: "Signs in then", Value: keysOf(u.Stay)},
		},
	}}
	if len(u.Stay) == 0 {
		return sections
	}
	return append(sections, Section{Title: "For the help desk, if the token was lost", Facts: LostFacts(u.Lost)})
}

// keysOf names the keys of enrollments and their tokens.
func keysOf(all []enrollment.Enrollment) string {
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = KeyName(e.Key) + " on " + text.Clean(e.Key.TokenName())
	}
	return strings.Join(names, ", ")
}

// LostFacts are what a help desk needs to know of a key, and what it may do.
func LostFacts(l contexts.LostKey) []Fact {
	certificate := ""
	if l.Serial != "" {
		certificate = "serial number " + l.Serial + ", until " + Date(l.NotAfter)
	}
	revoke := "kubehsm helpdesk revoke --user " + shell.Quote(l.User)
	for _, g := range l.Groups {
		revoke += " --group " + shell.Quote(g)
	}
	ended := ""
	if l.TokenSerial != "" {
		ended = "kubehsm helpdesk revoke --token " + text.Clean(shell.Quote(l.TokenSerial)) +
			"  (this token alone, where the cluster has a roster)"
	}
	return []Fact{
		{Name: "Who", Value: text.Clean(l.User)},
		{Name: "Lost token", Value: text.Clean(l.Token)},
		{Name: "Fingerprint", Value: text.Clean(l.Fingerprint)},
		{Name: "In words", Value: text.Clean(l.Words)},
		{Name: "Certificate", Value: certificate},
		{Name: "To revoke it", Value: ended},
		{Name: "To revoke all", Value: text.Clean(revoke) + "  (revokes all keys of the user)"},
	}
}
