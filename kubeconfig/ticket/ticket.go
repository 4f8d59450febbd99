package ticket

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/internal/problem"
)

// Bounds of a ticket, so that it fits a QR code that a camera can read.
const (
	maxText   = 256 // bytes of one field
	maxGroups = 16
	maxPins   = 4
)

// Ticket is a ticket. Copies share the token's secret.
type Ticket struct {
	Terms
	// Name is the name proposed for the enrollment; may be empty.
	Name string
	// Server is the API server's https URL.
	Server string
	// Pins are the authorities to trust, one at least.
	Pins []discovery.Pin
	// Token is the ticket's own bootstrap token: a secret.
	Token bootstraptoken.Token
	// Expires is when the token ends, in whole seconds.
	Expires time.Time
}

// Validate reports what a ticket cannot have, as an *[InputError].
func (t Ticket) Validate() error {
	server, err := url.Parse(t.Server)
	switch {
	case t.Token.IsZero():
		return problem.BadInput("token", "", "there is none")
	case err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil || server.RawQuery != "" ||
		server.Fragment != "":
		return problem.BadInput("server", "it is the API server's https URL", "%q is not a plain https URL", t.Server)
	case len(t.Pins) == 0 || len(t.Pins) > maxPins:
		return problem.BadInput("pins", "", "there are %d authorities; a ticket names 1 to %d", len(t.Pins), maxPins)
	case t.User == "":
		return problem.BadInput("user", "say who the certificate is for", "there is none")
	case len(t.Groups) > maxGroups:
		return problem.BadInput("groups", "", "there are %d; a ticket takes %d", len(t.Groups), maxGroups)
	case t.Expires.IsZero():
		return problem.BadInput("expires", "", "a ticket always expires")
	case t.Lifetime < 0:
		return problem.BadInput("lifetime", "", "it is negative")
	case t.Policy&^allPolicies != 0:
		return problem.BadInput("policy", "", "unknown policies")
	}
	for field, text := range map[string]string{"user": t.User, "name": t.Name, "server": t.Server, "signer": t.Signer,
		"serial": t.Serial, "group": strings.Join(t.Groups, "")} {
		if len(text) > maxText*maxGroups || field != "group" && len(text) > maxText || !utf8.ValidString(text) ||
			strings.ContainsFunc(text, unicode.IsControl) {
			return problem.BadInput(field, "", "it is too long or has control characters")
		}
	}
	return nil
}

// Expired reports whether the ticket's time is up at now, as an [ErrExpired].
func (t Ticket) Expired(now time.Time) error {
	if now.Before(t.Expires) {
		return nil
	}
	return hint.Withf(fmt.Errorf("%w on %s", ErrExpired, t.Expires.UTC().Format("2006-01-02 15:04 UTC")),
		"ask the help desk for another one; check this computer's clock")
}

// String is the ticket without its secret.
func (t Ticket) String() string {
	if t.Token.IsZero() {
		return ""
	}
	return fmt.Sprintf("ticket %s for %s at %s", t.Token, t.User, t.Server)
}

// Format prints [Ticket.String] for every verb.
func (t Ticket) Format(s fmt.State, _ rune) {
	// An error here is the writer's; fmt has nowhere to report it.
	_, _ = s.Write([]byte(t.String()))
}

// LogValue keeps the secret out of structured logs.
func (t Ticket) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText writes the redacted form.
func (t Ticket) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Wipe overwrites the token's secret in this ticket and its copies.
func (t Ticket) Wipe() { t.Token.Wipe() }
