package doctor

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/ui/present"
)

// Level says how good or bad a state is.
func (s State) Level() present.Level {
	switch s {
	case OK:
		return present.Good
	case Unknown, Warning:
		return present.Warn
	case Failed:
		return present.Bad
	}
	return present.Quiet
}

// Advice says why a check matters and what mends it; nothing where all is well. Like
// the check it may hold words of others.
func (c Check) Advice() []string {
	if c.State == OK {
		return nil
	}
	var lines []string
	if c.Why != "" {
		lines = append(lines, c.Why)
	}
	if c.Fix != "" {
		lines = append(lines, "To mend it: "+c.Fix)
	}
	return lines
}

// Summary says in a line whether kubectl can sign in, for which the checks must
// have found an enrollment with all that it needs. It may hold words of others.
func Summary(checks []Check) (ready bool, said present.Line) {
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
		return false, present.Line{Words: prevents(failed), Level: present.Bad}
	case enrolled == 0:
		return false, present.Line{Words: "nothing is enrolled yet: there is nothing to sign in with", Level: present.Warn}
	case len(usable) == 0:
		return false, present.Line{Words: "no enrollment can sign in now", Level: present.Warn}
	}
	said = present.Line{Words: "ready: " + named(usable) + " can sign in", Level: present.Good}
	if warnings > 0 {
		said.Words, said.Level = said.Words+"; "+present.Count(warnings, "warning"), present.Warn
	}
	return true, said
}

// maxNamed bounds how many enrollments the summary names: it is one line.
const maxNamed = 2

func named(all []string) string {
	if n := len(all) - maxNamed; n > 1 { // one more name is no longer than these words
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), n)
	}
	return strings.Join(all, ", ")
}

func prevents(failed int) string {
	if failed == 1 {
		return "1 problem prevents signing in"
	}
	return fmt.Sprintf("%d problems prevent signing in", failed)
}

// Passed says how many checks are [OK].
func Passed(n int) string { return present.Count(n, "check") + " passed" }

// enrollments counts those that were looked at, and names those that have a good
// certificate, their key on its token and, if it was asked, their API server.
func enrollments(checks []Check) (all int, usable []string) {
	lack := map[string]bool{}
	for _, c := range checks {
		kind, name, _ := strings.Cut(c.ID, "/")
		if kind == "absent" || c.State == Failed && (kind == "certificate" || kind == "server" || kind == "key") {
			lack[name] = true
		}
	}
	for _, c := range checks {
		name, ok := strings.CutPrefix(c.ID, "certificate/")
		if !ok {
			continue
		}
		all++
		if !lack[name] {
			usable = append(usable, fmt.Sprintf("%q", name))
		}
	}
	return all, usable
}
