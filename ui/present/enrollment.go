package present

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/text"
)

// The titles of what belongs to a review and a result.
const (
	ForecastTitle = "Forecast"
	SameTitle     = "The same by command"
	AskTitle      = "Ask an admin for"
	NextTitle     = "Next"
)

// ForecastPoint is a point of a forecast.
type ForecastPoint struct {
	ID      string
	Verdict Line
	// Evidence is what the reason rests on, in brackets, "" for nothing.
	Reason, Evidence string
}

// Forecast says what is likely to become of a request, point by point.
func Forecast(points []csr.Point) []ForecastPoint {
	said := make([]ForecastPoint, len(points))
	for i, p := range points {
		said[i] = ForecastPoint{ID: p.ID, Verdict: Line{Words: string(p.Verdict)}, Reason: text.Clean(p.Reason)}
		if p.Evidence != "" {
			said[i].Evidence = " [" + text.Clean(p.Evidence) + "]"
		}
		switch p.Verdict {
		case csr.OK:
			said[i].Verdict.Level = Good
		case csr.Warn:
			said[i].Verdict.Level = Warn
		case csr.Refuse:
			said[i].Verdict.Level = Bad
		}
	}
	return said
}

// ReviewFacts say what an enrollment would do.
func ReviewFacts(r enroll.Review) []Fact {
	o := r.Options
	var done []string
	for _, s := range r.Resumes {
		done = append(done, s.Title())
	}
	signer, lifetime, own := text.Clean(o.SignerName), Lifetime(o.Expiration), ""
	if r.Certificate != nil {
		signer, lifetime, own = "", "", "the one on the token, "+ownCertificate(r)
	}
	return []Fact{
		{Name: "Enrollment", Value: text.Clean(o.Name)},
		{Name: "Spare of", Value: text.Clean(o.SpareOf)},
		{Name: "Token", Value: Token(r.Token)},
		{Name: "Key", Value: text.Clean(enrolledKey(r))},
		{Name: "Cluster", Value: text.Clean(r.Server + " (" + knownBy(o) + ")")},
		{Name: "User", Value: text.Clean(o.User)},
		{Name: "Groups", Value: text.Clean(strings.Join(o.Groups, ", "))},
		{Name: "Signer", Value: signer},
		{Name: "Lifetime", Value: lifetime},
		{Name: "Certificate", Value: own},
		{Name: "Kubeconfig", Value: text.Clean(r.KubeconfigFile)},
		{Name: "Done already", Value: text.Clean(strings.Join(done, ", "))},
		{Name: "Then", Value: next(r)},
	}
}

// ReviewSummary says in five lines what an enrollment would do: for whom, where, with which
// key, what changes, and what comes next.
func ReviewSummary(r enroll.Review) []Fact {
	o := r.Options
	who := text.Clean(o.User)
	if len(o.Groups) > 0 {
		who += ", in " + text.Clean(strings.Join(o.Groups, ", "))
	}
	if r.Certificate != nil {
		who += "; by the certificate on the token, " + ownCertificate(r)
	}
	if o.Expiration != 0 {
		who += "; for " + Lifetime(o.Expiration)
	}
	if o.SignerName != csr.ClientSigner && o.SignerName != "" && !o.Adopt {
		who += "; signed by " + text.Clean(o.SignerName)
	}
	var changes []string
	if r.KubeconfigDiff != "" {
		changes = append(changes, "context "+text.Clean(o.Name))
	}
	if o.SpareOf != "" {
		changes = append(changes, text.Clean(o.SpareOf)+" gets a second key; the context stays as it is")
	}
	if len(r.Replaces) > 0 {
		changes = append(changes, "on the token: "+replacements(r))
	}
	key := enrolledKey(r)
	return []Fact{
		{Name: "Who", Value: who},
		{Name: "Where", Value: text.Clean(r.Server + " (" + knownBy(o) + ")")},
		{Name: "Key", Value: text.Clean(key) + ", on " + Token(r.Token)},
		{Name: "Changes", Value: strings.Join(changes, "; ")},
		{Name: "Then", Value: next(r)},
	}
}

// next says what comes after the certificate request, or why there is none.
func next(r enroll.Review) string {
	o := r.Options
	switch {
	case r.Refused != nil:
		return "the enrollment stops: " + text.Clean(r.Refused.Error())
	case o.Adopt && len(r.Replaces) > 0:
		return "sign in with the certificate; no request is filed"
	case o.Adopt:
		return "sign in with the certificate; no request is filed, and the token stays as it is"
	case slices.Contains(r.Resumes, enrolling.StepApproval):
		return "the certificate is issued already: sign in with it"
	case r.Approved:
		return "the request is approved: the enrollment continues by itself"
	case o.ApproveWith != "":
		return "the request is approved with " + text.Clean(o.ApproveWith)
	}
	return "somebody approves the request; you may stop meanwhile"
}

// ownCertificate describes the certificate on the token that an enrollment signs in with.
func ownCertificate(r enroll.Review) string {
	leaf := r.Certificate.Leaf
	return text.Clean("issued by "+leaf.Issuer.String()) + ", until " + Date(leaf.NotAfter)
}

// replacements says what takes the place of default secrets.
func replacements(r enroll.Review) string {
	var fresh []string
	for _, kind := range r.Replaces {
		switch kind {
		case hsm.PUK:
			fresh = append(fresh, "random PUK (shown at the end)")
		case hsm.ManagementKey:
			fresh = append(fresh, "random management key")
		default:
			fresh = append(fresh, "your own PIN")
		}
	}
	return strings.Join(fresh, ", ")
}

// enrolledKey says which key is enrolled.
func enrolledKey(r enroll.Review) string {
	o := r.Options
	switch {
	case slices.Contains(r.Resumes, enrolling.StepKey):
		return "the one that was made before"
	case r.Certificate != nil:
		return KeyName(o.Key) + ", " + string(hsm.AlgorithmOf(r.Certificate.Leaf.PublicKey)) + ", which is there"
	case o.Key.Scheme != "":
		return KeyName(o.Key) + ", which is there"
	}
	key := "new, " + string(EnrolledAlgorithm(o))
	if o.Token.Kind().HasSlots() {
		key += ", in slot " + o.Generate.Slot
	}
	if p := o.Generate.PIN; p != hsm.PINDefault {
		key += ", PIN " + p.String()
	}
	if p := o.Generate.Touch; p != hsm.TouchDefault {
		key += ", touch " + p.String()
	}
	return key
}

// EnrolledAlgorithm is the algorithm that a new key would have.
func EnrolledAlgorithm(o enrolling.Options) hsm.Algorithm {
	if o.Generate.Algorithm == "" {
		return hsm.ECDSAP256
	}
	return o.Generate.Algorithm
}

// KeyName is the shortest name of the key that u names on its token.
func KeyName(u hsm.URI) string {
	switch {
	case u.Slot != "":
		return "slot " + text.Clean(u.Slot)
	case u.Object != "":
		return text.Clean(u.Object)
	case len(u.ID) > 4:
		return fmt.Sprintf("key %x…", u.ID[:4])
	}
	return fmt.Sprintf("key %x", u.ID)
}

// knownBy says by what a cluster is known.
func knownBy(o enrolling.Options) string {
	switch j := o.Join; {
	case j == nil:
		return "context " + o.Context
	case j.Ticket != "":
		return "ticket " + j.Ticket
	case j.File != "":
		return "by " + j.File
	}
	return "by token"
}

// Lifetime says how long a certificate is asked for; 0 is the signer's choice.
func Lifetime(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "as the signer decides"
	case d%day == 0 && d >= 2*day:
		return Count(int(d/day), "day")
	case d%time.Hour == 0:
		return Count(int(d/time.Hour), "hour")
	}
	return span.Of(d)
}

// ChangesTitle is the title above the changes to a kubeconfig file.
func ChangesTitle(file string) string { return "Changes to " + text.Clean(file) }

// NoChanges is said where a kubeconfig stays as it is.
const NoChanges = "none"

// Step says how a step of an enrollment went, "" where it is not over.
func Step(s enrolling.StepState) string {
	switch s {
	case enrolling.StepDone:
		return "done"
	case enrolling.StepReused:
		return "done before"
	case enrolling.StepFailed:
		return "failed"
	}
	return ""
}

// Enrolled is the headline of a result.
func Enrolled(r enrolling.Result) string {
	said := "Enrolled: authenticated as " + text.Clean(r.User)
	if !r.Rights {
		said += ", no rights yet"
	}
	return said
}

// ResultFacts are what the cluster says of an enrollment, and until when.
func ResultFacts(r enrolling.Result, now time.Time) []Fact {
	groups := slices.DeleteFunc(slices.Clone(r.Groups), func(g string) bool {
		return g == "system:authenticated" // everybody is in it
	})
	return []Fact{
		{Name: "Groups", Value: text.Clean(strings.Join(groups, ", "))},
		{Name: "Context", Value: text.Clean(r.Context)},
		{Name: "Until", Value: ends(r.NotAfter, now)},
	}
}

// Approval says what to send to who approves a request: what is awaited, the command, the words.
func Approval(a enrolling.Approval) []string {
	lines := []string{"waiting for somebody to approve " + text.Clean(a.Request) + ":", text.Clean(ForApprover(a))}
	if a.Words != "" {
		lines = append(lines, "if the approver asks, the key's words are:", text.Clean(a.Words))
	}
	return lines
}

// ForApprover is a line for a shell that approves a request, with kubehsm or without. Only kubehsm
// compares a request with its ticket.
func ForApprover(a enrolling.Approval) string {
	if a.Ticket {
		return a.Command
	}
	return a.Command + "  # or: kubectl certificate approve " + a.Request
}

// Mend says what is left undone by an enrollment and has to be mended; nil if nothing is.
func Mend(r enrolling.Result) []Section {
	if len(r.Warnings) == 0 {
		return nil
	}
	return []Section{{Lines: linesOf("", r.Warnings, Bad)}}
}

// FreshPUK says of a token's new PUK, which stands below, how to keep it.
func FreshPUK(r enrolling.Result) (what, keep string) {
	what = "The new PUK of the token"
	if r.PUKUnsure {
		what += ", which may be in force although the change failed"
	}
	return what, "Write it down now: it is not shown again. Keep it apart from the token. It sets a new PIN when the " +
		"old one is blocked."
}

// Result is a finished enrollment in parts.
func Result(r enrolling.Result, now time.Time) []Section {
	sections := []Section{{Lines: []Line{{Words: Enrolled(r)}}}, {Facts: append(ResultFacts(r, now), RecordFacts(r)...)}}
	add := func(title string, lines ...string) {
		if len(lines) > 0 {
			sections = append(sections, Section{Title: title, Lines: linesOf("", lines, Quiet)})
		}
	}
	sections = append(sections, Mend(r)...)
	if !r.Rights && r.Ask != "" {
		add(AskTitle, r.Ask)
	}
	add("Notes", r.Notes...)
	add(NextTitle, r.Next...)
	return sections
}

// ends says when something ends, and how long that is, "" for never.
func ends(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return Date(at) + " (in " + span.Of(at.Sub(now)) + ")"
}

// RenewQuestion asks before the certificate x is renewed; begun tells whether that was begun before.
func RenewQuestion(x enroll.Expiring, begun bool, now time.Time) hsm.ConfirmPrompt {
	q := hsm.ConfirmPrompt{Question: "Renew " + text.Clean(x.Name) + " now?", Detail: "Its certificate has expired.",
		DefaultYes: x.Due || begun}
	if left := x.NotAfter.Sub(now); left > 0 {
		q.Detail = "Its certificate ends in " + span.Of(left) + "."
		if !x.Due {
			q.Detail += " It does not have to be renewed yet."
		}
	}
	if begun {
		q.Question = "Go on with the renewal of " + text.Clean(x.Name) + "?"
	}
	return q
}

// Renewed says until when a renewed certificate is good.
func Renewed(r enrolling.Result, now time.Time) string {
	return text.Clean(r.Name) + ": renewed until " + ends(r.NotAfter, now)
}

// RecordFacts are what is kept of an enrollment.
func RecordFacts(r enrolling.Result) []Fact {
	return []Fact{
		{Name: "Key", Value: keyURI(r.Key)},
		{Name: "Fingerprint", Value: text.Clean(r.Fingerprint)},
		{Name: "Request", Value: text.Clean(r.Request)},
		{Name: "Kubeconfig", Value: text.Clean(r.Kubeconfig)},
	}
}

// keyURI names a key without what is long and not needed for that.
func keyURI(u hsm.URI) string {
	u.ModulePath, u.Manufacturer, u.Model = "", "", ""
	return text.Clean(u.String())
}

// DropQuestion asks before an unfinished enrollment, or renewal of one, is forgotten.
func DropQuestion(o enrolling.Options) hsm.ConfirmPrompt {
	q := hsm.ConfirmPrompt{Question: "Drop what was begun for " + text.Clean(o.Name) + "?",
		Detail: "It cannot be resumed then. Keys on the token and requests on the cluster stay as they are."}
	if o.Renewal != nil {
		q.Detail += " The enrollment stays, with the certificate that it has."
	}
	return q
}
