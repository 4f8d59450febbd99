package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Summary says in a line whether kubectl can sign in, for which the checks must
// have found an enrollment with all that it needs.
func Summary(checks []Check) (ready bool, words string) {
	failed, warnings := 0, 0
	for _, c := range checks {
		switch c.State {
		case Failed:
			failed++
		case Warning:
			warnings++
		}
	}
	enrolled, usable := enrollments(checks)
	switch {
	case failed > 0:
		return false, count(failed, "thing") + " in the way of signing in"
	case enrolled == 0:
		return false, "nothing is enrolled yet: there is nothing to sign in with"
	case len(usable) == 0:
		return false, "no enrollment can sign in now"
	}
	words = "ready: " + strings.Join(usable, ", ") + " can sign in"
	if warnings > 0 {
		words += "; " + count(warnings, "warning")
	}
	return true, words
}

// enrollments counts those that were looked at, and names those that have a good
// certificate, their token and, if it was asked, their API server.
func enrollments(checks []Check) (all int, usable []string) {
	for _, c := range checks {
		name, ok := strings.CutPrefix(c.ID, "certificate/")
		if !ok {
			continue
		}
		all++
		lacks := func(o Check) bool {
			return o.ID == "absent/"+name || o.State == Failed && (o.ID == c.ID || o.ID == "server/"+name)
		}
		if !slices.ContainsFunc(checks, lacks) {
			usable = append(usable, fmt.Sprintf("%q", name))
		}
	}
	return all, usable
}
