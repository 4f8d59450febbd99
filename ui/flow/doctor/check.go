package doctor

import "slices"

// State is how a thing was found.
type State string

// The states, from good to bad.
const (
	OK      State = "ok"
	Note    State = "note"    // works, worth knowing
	Unknown State = "unknown" // could not be found out; Found says why
	Warning State = "warning" // works now, will not always, or not safely
	Failed  State = "failed"  // prevents signing in
)

// The groups, in the order in which they are told.
const (
	GroupProgram    = "program"
	GroupTokens     = "tokens"
	GroupKubectl    = "kubectl"
	GroupKubeconfig = "kubeconfig"
	GroupAgent      = "agent"
	GroupClusters   = "clusters"
)

// Check is one thing that was looked at. Found and Fix may hold words of
// others: clean them before they are printed.
type Check struct {
	// ID is stable: scripts may look for it. Where there are several things of a
	// kind, what follows the slash tells them apart: "certificate/prod".
	ID    string `json:"id"`
	Group string `json:"group"`
	Title string `json:"title"`
	State State  `json:"state"`
	// Found is what was found, one line.
	Found string `json:"found"`
	// Why says why it matters, one sentence; empty where all is well.
	Why string `json:"why,omitempty"`
	// Fix is the next step, with the command for this system; empty where there
	// is nothing to do.
	Fix string `json:"fix,omitempty"`
}

// Worst is the worst state among the checks, [OK] of none. [Unknown] and [Note]
// are not worse than [OK] for a script, but are told.
func Worst(checks []Check) State {
	worst := OK
	for _, c := range checks {
		if rank[c.State] > rank[worst] {
			worst = c.State
		}
	}
	return worst
}

// rank orders the states, the worst last.
var rank = map[State]int{OK: 0, Note: 1, Unknown: 2, Warning: 3, Failed: 4}

// Problems returns the checks that are not [OK], the worst first and otherwise in their
// order, and how many are.
func Problems(checks []Check) (problems []Check, passed int) {
	for _, c := range checks {
		if c.State != OK {
			problems = append(problems, c)
		}
	}
	slices.SortStableFunc(problems, func(a, b Check) int { return rank[b.State] - rank[a.State] })
	return problems, len(checks) - len(problems)
}

// ok, note, unknown, warning and failed make checks.
func (c Check) ok(found string) Check { c.State, c.Found = OK, found; return c }

func (c Check) with(s State, found, why, fix string) Check {
	c.State, c.Found, c.Why, c.Fix = s, found, why, fix
	return c
}
