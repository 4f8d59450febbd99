package present

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Stop says what the revocation of certificates does, and what remains.
func Stop(s desk.Stop) []Section {
	lines := retired(s, "token ", ": retired on the roster, and gets no further certificate")
	for _, t := range s.Targets {
		lines = append(lines, Line{Words: certificateNamed(t)})
	}
	if len(lines) == 0 {
		lines = append(lines, Line{Words: "Nothing: all of them are revoked already."})
	}
	sections := []Section{{Title: "To revoke", Lines: lines}}
	lines = nil
	for _, t := range s.Already {
		lines = append(lines, Line{Words: certificateNamed(t), Level: Quiet})
	}
	for _, more := range []Section{
		{Title: "Revoked already", Lines: lines},
		{Title: "Not revoked, because", Lines: linesOf("", s.Refusals, Bad)},
		{Title: "Mind", Lines: linesOf("", s.Warnings, Warn)},
	} {
		if len(more.Lines) > 0 {
			sections = append(sections, more)
		}
	}
	does := reach(s)
	if s.ByApprover {
		by := Line{Words: "The cluster's approver revokes these certificates for you. " +
			"Only a cluster admin can lift the revocation."}
		does = append([]Line{by}, does...)
	}
	return append(sections, Section{Title: "What it does", Lines: does})
}

// retired names the tokens that a revocation retires.
func retired(s desk.Stop, before, after string) (lines []Line) {
	for _, t := range s.Tokens {
		lines = append(lines, Line{Words: text.Clean(fmt.Sprintf("%s%s of %q%s", before, t.Serial, t.Owner, after))})
	}
	return lines
}

func certificateNamed(t desk.Target) string {
	words := "certificate " + t.Certificate[:16]
	switch {
	case t.Token != "":
		words += fmt.Sprintf(" of %q, or of an earlier holder of token %s", t.User, t.Token)
	case t.User != "":
		words += fmt.Sprintf(" of %q", t.User)
	}
	if len(t.Groups) > 0 {
		words = join(words, "groups "+strings.Join(t.Groups, ", "))
	}
	until := "until an unknown end"
	if !t.NotAfter.IsZero() {
		until = "until " + Date(t.NotAfter)
	}
	return text.Clean(words + ", " + until)
}

// reach says what a revocation reaches and what goes on.
func reach(s desk.Stop) []Line {
	return []Line{
		{Words: "Refused: requests that create, change or delete, their dry runs, exec, attach, port-forward and proxies."},
		{Words: "Still possible: reading, until the certificate ends; watches and sessions that are open now; writing " +
			"to aggregated API servers that decide by themselves; and changing admission policies, with the right to."},
		{Words: "Not refused with --as, for a user who may impersonate others.", Level: Warn},
	}
}

// BrokenPolicies names the policies with revoked certificates that are broken.
func BrokenPolicies(all []string) Section {
	lines := linesOf("", all, Bad)
	if len(lines) == 0 {
		lines = []Line{{Words: "no policy that you may read is broken", Level: Quiet}}
	}
	return Section{Title: "Policies with revoked certificates", Lines: lines}
}

// Stopped says what became of the revocation of certificates.
func Stopped(s desk.Stop) []Section {
	lines := retired(s, "retired: token ", "")
	what, count := "revoked: ", "Certificates revoked: %d."
	if s.Pending() != nil {
		what, count = "filed: ", "Certificates filed: %d, none of which is revoked yet."
	}
	for _, t := range slices.Concat(s.Targets, s.Already) {
		lines = append(lines, Line{Words: what + certificateNamed(t)})
	}
	lines = append(lines, Line{Words: fmt.Sprintf(count, len(s.Targets)+len(s.Already))})
	if len(s.Tokens) > 0 {
		lines = append(lines, Line{Words: "Not known: certificates of the token that the roster does not have, because they " +
			"were issued while no approver ran, or approved past it.", Level: Quiet})
	}
	if s.Done != nil {
		lines = append(lines, Enforced(*s.Done))
	}
	return []Section{{Lines: lines}, {Title: "What remains", Lines: reach(s)[1:]}}
}

// RevokedEntry says of one revoked certificate whose it is, and why, when and by whom it was revoked.
func RevokedEntry(e revocation.Entry) string {
	words := fmt.Sprintf("%s of %q, revoked on %s by %s", e.Certificate[:16], e.User, Date(e.At), e.By)
	if e.Reason != "" {
		words += ": " + e.Reason
	}
	return text.Clean(words)
}

// Enforced says whether the API server enforces a change to the list.
func Enforced(e desk.Enforcement) Line {
	switch {
	case e.Approver && e.InForce:
		return Line{Words: fmt.Sprintf("The approver has put the revocation in force, after %s: one API server enforces it; "+
			"the others will within seconds.", e.After)}
	case e.Approver:
		return Line{Words: "The revocation is filed but not in force yet: " + Note(e.Note) + ". It takes effect " +
			"as soon as the approver runs.", Level: Warn}
	case e.InForce:
		return Line{Words: fmt.Sprintf("The API server that answered enforces it, after %s; the others will within seconds.",
			e.After)}
	}
	return Line{Words: "It is not known whether the API server enforces it yet: " + Note(e.Note), Level: Warn}
}

// Revocations is the list of revoked certificates of a cluster.
func Revocations(l revocation.List) []Section {
	t := Table{Heading: []string{"CERTIFICATE", "USER", "UNTIL", "REVOKED", "BY", "REASON", "POLICY"}}
	for e, s := range l.All() {
		t.Rows = append(t.Rows, cells(e.Certificate[:16], text.Clean(e.User), Date(e.NotAfter), Date(e.At),
			text.Clean(e.By), text.Clean(e.Reason), s.Name))
	}
	sections := []Section{{Table: t}}
	if len(t.Rows) == 0 {
		sections = []Section{{Lines: []Line{{Words: "No certificate is revoked in this cluster."}}}}
	}
	policy := "a policy that cannot be evaluated lets writes pass"
	if l.Settings.FailClosed {
		policy = "a policy that cannot be evaluated refuses the certificates that it cannot look up"
	}
	if len(l.Shards) == 0 {
		return sections
	}
	spared := text.Clean("Never refused: nodes, and the group " + l.Settings.SparedGroup() + "; " + policy + ".")
	return append(sections, Section{Lines: []Line{{Words: spared, Level: Quiet}}})
}

// FiledRevocations says what has become of the Revocations that the approver carries out; nothing if there are none.
func FiledRevocations(all []clusterapi.Revocation) []Section {
	t := Table{Heading: []string{"REVOCATION", "USER", "CERTIFICATES", "BY", "FILED", "STATE"}}
	var lines []Line
	for _, r := range all {
		state := "not in force yet"
		condition := meta.FindStatusCondition(r.Status.Conditions, clusterapi.InForce)
		if r.Status.InForceSince != nil {
			state = "in force since " + Date(r.Status.InForceSince.Time)
		}
		t.Rows = append(t.Rows, cells(r.Name, text.Clean(r.Spec.User),
			Count(len(r.Spec.Certificates), "certificate"), text.Clean(r.Spec.By), Date(r.CreationTimestamp.Time), state))
		if condition != nil && condition.Status != metav1.ConditionTrue {
			lines = append(lines, Line{Words: r.Name + ": " + Note(condition.Message), Level: Bad})
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []Section{{Title: "By the approver", Table: t}, {Lines: lines}}
}

// Trial says what was tried to prove that revocation works.
func Trial(steps []desk.TrialStep) []Section {
	var lines []Line
	for _, s := range steps {
		words, level := "ok: "+s.What, Quiet
		if !s.OK {
			words, level = "not so: "+s.What, Bad
		}
		if s.Note != "" {
			words += " (" + Note(s.Note) + ")"
		}
		lines = append(lines, Line{Words: text.Clean(words), Level: level})
	}
	return []Section{{Lines: lines}}
}
