package present

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/ui/text"
)

// NoAgent is said where no agent runs.
const NoAgent = "The agent is not running. It starts when kubectl needs it."

// NeverFollows says that the agent looks at no cluster.
const NeverFollows = "does not look for clusters that move: config.yaml has `follow: never`"

// AgentProcess says which agent runs, and since when.
func AgentProcess(s message.Status, now time.Time) string {
	return fmt.Sprintf("%s, process %d, up %s", text.Clean(s.Version), s.PID, Age(now.Sub(s.Started)))
}

// AgentFacts are what is known of the agent itself.
func AgentFacts(s message.Status, now time.Time) []Fact {
	address := Fact{Name: "Bridge", Value: text.Clean(s.Bridge)}
	if s.BridgeError != "" {
		address = Fact{Name: "Bridge", Value: text.Clean(s.BridgeError), Level: Bad}
	}
	memory, newer, follows := "", "", ""
	if s.NeverFollows {
		follows = NeverFollows
	}
	if s.Memory > 0 {
		memory = fmt.Sprintf("%d MB", s.Memory>>20)
		for _, worker := range s.Workers {
			memory += fmt.Sprintf(" + %d MB for a token (process %d)", worker.Memory>>20, worker.PID)
		}
	}
	if s.Newer != nil {
		newer = text.Clean(fmt.Sprintf("%s is there; it takes over when nothing is open, or after `agent stop`", s.Newer))
	}
	sessions := strconv.Itoa(Sessions(s))
	if n := s.OtherSessions.Ended; n > 0 {
		sessions += ", and " + strconv.Itoa(n) + " of programs that have ended"
	}
	return []Fact{
		{Name: "Agent", Value: AgentProcess(s, now)}, address,
		{Name: "Memory", Value: memory},
		{Name: "Audit log", Value: text.Clean(s.AuditError), Level: Bad},
		locksOn(s),
		{Name: "Follows", Value: follows},
		{Name: "Newer", Value: newer},
		{Name: "Signatures", Value: fmt.Sprintf("%d, connections: %d", s.Signatures, s.Dials)},
		{Name: "Sessions", Value: sessions},
	}
}

// Sessions counts the programs that have a session and run.
func Sessions(s message.Status) int { return len(s.Sessions) + s.OtherSessions.More }

// locksOn says which ways of leaving the computer lock all tokens, and which cannot be told
// here.
func locksOn(s message.Status) Fact {
	of := map[string][]string{} // names of enrollments by problem
	var problems []string
	for _, l := range s.LocksOn {
		if of[l.Problem] == nil && l.Problem != "" {
			problems = append(problems, l.Problem)
		}
		of[l.Problem] = append(of[l.Problem], strings.ReplaceAll(text.Clean(l.Reason), "-", " "))
	}
	f := Fact{Name: "Locks on", Value: strings.Join(of[""], ", ")}
	for _, p := range problems {
		f.Value, f.Level = join(f.Value, "not on "+strings.Join(of[p], ", ")+": "+text.Clean(p)), Warn
	}
	return f
}

// AgentProblems are what the agent fails at.
func AgentProblems(s message.Status) []string {
	var all []string
	for _, p := range []string{s.BridgeError, s.AuditError} {
		if p != "" {
			all = append(all, text.Clean(p))
		}
	}
	return all
}

// AwaitsYes says that a request waits for a person's yes.
func AwaitsYes(request string) string { return "waits for consent: " + text.Clean(request) }

// Open is something that is open at the agent.
type Open struct {
	// Key tells it from the others, also when it changes.
	Key              string
	What, Enrollment string
	State            string
	Level            Level
}

// OpenAt are what is open at the agent: what waits for a person first, then tokens,
// connections and sessions.
func OpenAt(s message.Status, now time.Time) []Open {
	var all []Open
	for _, c := range s.Consents {
		all = append(all, Open{Key: "c" + c.Enrollment + strconv.Itoa(c.Client.PID), What: AwaitsYes(c.Request),
			Enrollment: text.Clean(c.Enrollment), State: "process " + strconv.Itoa(c.Client.PID) + ", for " +
				Age(now.Sub(c.Since))})
	}
	for _, t := range s.Tokens {
		o := Open{Key: "t" + t.URI.String(), What: "token " + text.Clean(shortName(t.URI)), State: tokenState(t, now)}
		if t.Problem != "" {
			o.Level = Warn
		}
		all = append(all, o)
	}
	for _, u := range s.Upstreams {
		state, level := upstreamState(u, now)
		all = append(all, Open{Key: "u" + u.Enrollment, What: "connection to " + text.Clean(u.Server),
			Enrollment: text.Clean(u.Enrollment),
			State:      fmt.Sprintf("%s, %s, %d of %d signed", state, countOf(u.Requests, "request"), u.Signatures, u.Dials),
			Level:      level})
	}
	for _, r := range s.Renewals {
		o := Open{Key: "r" + r.Enrollment, What: "renewal of the certificate", Enrollment: text.Clean(r.Enrollment)}
		if r.Failure != "" {
			o.State, o.Level = "failed "+Age(now.Sub(r.Failed))+" ago: "+text.Clean(r.Failure), Warn
		} else {
			o.State = "request " + text.Clean(r.Request) + ", for " + Age(now.Sub(r.Made))
		}
		all = append(all, o)
	}
	for _, f := range s.Unfollowed {
		all = append(all, Open{Key: "f" + f.Enrollment, What: "address of the cluster", Enrollment: text.Clean(f.Enrollment),
			State: text.Clean(f.Problem), Level: Warn})
	}
	for _, e := range s.Sessions {
		state := countOf(e.Requests, "request")
		if e.Open > 0 {
			state += fmt.Sprintf(", %d open", e.Open)
		}
		switch {
		case e.Until.IsZero():
			state += ", until the program ends"
		case e.Until.After(now):
			state += ", " + span.Of(e.Until.Sub(now)) + " left"
		default:
			state += ", ended"
		}
		all = append(all, Open{Key: "s" + e.Enrollment + strconv.Itoa(e.Client.PID),
			What:       "process " + strconv.Itoa(e.Client.PID),
			Enrollment: text.Clean(e.Enrollment), State: state})
	}
	return append(all, otherSessions(s.OtherSessions, now)...)
}

// otherSessions are a line for each sum.
func otherSessions(o bridge.OtherSessions, now time.Time) (all []Open) {
	if o.More > 0 {
		all = append(all, Open{Key: "more", What: Count(o.More, "more program"), State: "until they end"})
	}
	if o.Ended > 0 {
		state := "forgotten soon"
		if o.Until.After(now) {
			state = "forgotten in " + span.Of(o.Until.Sub(now))
		}
		all = append(all, Open{Key: "ended", What: Count(o.Ended, "program") + " that ended", State: state})
	}
	return all
}

func countOf(n uint64, noun string) string { return Count(int(n), noun) }

// shortName names a token by its URI alone.
func shortName(u hsm.URI) string {
	if u.Serial != "" && u.Token != "" {
		return u.Token + " (" + u.Serial + ")"
	}
	return u.Serial + u.Token
}

func tokenState(t message.TokenStatus, now time.Time) string {
	state, left := "locked", ""
	if why := message.WhyLocked(t.LockedBy); why != "" {
		state += " " + Age(now.Sub(t.LockedAt)) + " ago: " + why
	}
	if !t.Until.IsZero() {
		left = span.Of(t.Until.Sub(now))
	}
	if t.Problem != "" {
		state = "cannot be asked: " + text.Clean(t.Problem)
		if left != "" {
			state += "; connections that it signed are closed within " + left
		}
		return state
	}
	switch {
	case t.Unlocked && left != "":
		state = "unlocked, " + left + " more if not used"
	case t.Unlocked:
		state = "unlocked"
	case left != "":
		state += "; connections that it signed are closed within " + left
	}
	return state
}

// upstreamState says how the connection to an API server is.
func upstreamState(u upstream.Status, now time.Time) (string, Level) {
	ended := !u.CertificateEnds.IsZero() && now.After(u.CertificateEnds)
	switch {
	case ended && u.Connections > 0:
		return "still connected, but the certificate ended on " + Date(u.CertificateEnds), Bad
	case ended:
		return "the certificate ended on " + Date(u.CertificateEnds), Bad
	case u.Rejected:
		return "certificate rejected", Bad
	case u.Connections > 0:
		return "connected (" + text.Clean(u.Protocol) + ")", Quiet
	case u.LastError != "":
		return text.Clean(u.LastError), Warn
	}
	return "not connected", Quiet
}
