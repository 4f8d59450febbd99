package present

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/text"
)

// UnenrollQuestion is the question before an enrollment is removed. It repeats the name,
// since the sections of [Unenroll] may be out of sight by then.
func UnenrollQuestion(u contexts.Unenrollment) string {
	return "Remove the enrollment " + text.Clean(u.Enrollment.Name) + "?"
}

// Unenroll says which enrollment would be removed, what goes with it and what stays.
func Unenroll(u contexts.Unenrollment) []Section {
	lines := []Line{{Words: "The kubeconfig entry, the record and the certificates here are removed. The key stays on " +
		"the token, " +
		"and its certificate stays valid until it ends."}}
	if len(u.SameKey) > 0 {
		lines = append(lines, Line{Words: "Enrollments with the same key stay: " + text.Clean(strings.Join(u.SameKey, ", "))})
	}
	key := u.Enrollment.Key
	return []Section{{
		Lines: lines,
		Facts: []Fact{
			{Name: "Enrollment", Value: text.Clean(u.Enrollment.Name)},
			{Name: "Cluster", Value: text.Clean(u.Enrollment.Cluster.Server)},
			{Name: "User", Value: text.Clean(u.Enrollment.User)},
			{Name: "Key", Value: KeyName(key) + " on " + text.Clean(key.TokenName())},
		},
	}}
}
