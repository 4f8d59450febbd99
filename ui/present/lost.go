package present

import (
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/flow/lost"
	"github.com/kubehsm/kubehsm/ui/text"
)

// LostQuestion is the question before a token is reported lost.
func LostQuestion(t lost.Token) string {
	return "Report the token " + text.Clean(t.Serial) + " as lost?"
}

// LostToken says what ends when its owner reports a token lost, and what goes on.
func LostToken(t lost.Token) []Section {
	lines := []Line{
		{Words: "If the roster gives you the token, it gets no further certificate. The certificates that the roster has " +
			"for it are revoked: they can write nothing more, and can read until they end."},
		{Words: "Your other tokens keep working."}, {Words: "Only a cluster admin can undo this."},
	}
	return []Section{{Facts: []Fact{
		{Name: "Token", Value: text.Clean(t.Serial)},
		{Name: "Reported by", Value: text.Clean(t.User)},
		{Name: "Cluster", Value: text.Clean(t.Server)},
		{Name: "Enrollment", Value: text.Clean(t.Enrollment)},
		{Name: "Certificate", Value: lostUntil(t)},
	}}, {Lines: append(lines, elsewhere(t)...)}}
}

// lostUntil says when the certificate ends that this computer knows.
func lostUntil(t lost.Token) string {
	if t.NotAfter.IsZero() {
		return ""
	}
	return "until " + Date(t.NotAfter)
}

// elsewhere names the clusters that need a report of their own.
func elsewhere(t lost.Token) (lines []Line) {
	for _, name := range t.Elsewhere {
		lines = append(lines, Line{Level: Warn, Words: "The token signs in to another cluster too, as " + text.Clean(name) +
			": report it there as well, with --context"})
	}
	return lines
}

// LostDone says what became of the report of a lost token.
func LostDone(t lost.Token) []Section {
	what := "The token " + text.Clean(t.Serial) + " is lost. "
	if t.Revoked.Certificates == 0 {
		what += "The roster has no valid certificate for it."
	} else {
		what += "Revoked: " + Count(t.Revoked.Certificates, "certificate") + ", which can still read until " +
			Date(t.Revoked.Until) + ". One API server enforces the revocation; the others will within seconds."
	}
	lines := []Line{{Words: what, Level: Good}}
	if t.Enrollment != "" {
		lines = append(lines, Line{Words: text.Clean("To remove its key from this computer: kubehsm unenroll " +
			shell.Quote(t.Enrollment) + " --token " + shell.Quote(t.URI))})
	}
	return []Section{{Lines: append(lines, elsewhere(t)...)}}
}
