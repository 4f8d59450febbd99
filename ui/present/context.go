package present

import (
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/text"
)

// NoContexts is said where the kubeconfig files have none.
const NoContexts = "The kubeconfig names no context."

// SignsInBy says how a context signs in, and how safe that is.
func SignsInBy(c contexts.View) (string, Level) {
	switch kubeconfig.UserKind(c.UserKind) {
	case kubeconfig.UserOurs:
		if n := len(c.Spares); n > 0 {
			return Count(n+1, "token"), Good
		}
		return "token", Good
	case kubeconfig.UserExternalSigner:
		return "token, patched", Good
	case kubeconfig.UserKeyFile:
		return "key file", Warn
	case kubeconfig.UserKeyData:
		return "embedded key", Warn
	case kubeconfig.UserToken, kubeconfig.UserBasic:
		return "embedded secret", Warn
	case kubeconfig.UserTokenFile:
		return "secret file", Warn
	case kubeconfig.UserExec:
		return "program", Quiet
	case kubeconfig.UserMissing:
		return "user missing", Bad
	}
	return text.Clean(c.UserKind), Quiet
}

// Keys names the enrollment of a context, and its spares.
func Keys(c contexts.View) string {
	names := c.Enrollment
	if len(c.Spares) > 0 {
		names += "; spare: " + strings.Join(c.Spares, ", ")
	}
	return text.Clean(names)
}

// Server is a context's API server, also where the context names the bridge to it.
func Server(c contexts.View) string {
	if c.APIServer != "" {
		return text.Clean(c.APIServer)
	}
	return text.Clean(c.Server)
}

// bridgeOf is the address that kubectl connects to, where that is another one.
func bridgeOf(c contexts.View) string {
	if c.APIServer != "" && c.APIServer != c.Server {
		return text.Clean(c.Server)
	}
	return ""
}

// Ending says how long an enrollment's certificate is still good.
func Ending(e enroll.Expiring, now time.Time) Fact {
	switch rest := e.NotAfter.Sub(now); {
	case e.Err != nil:
		return Fact{Name: "Expires", Value: "unknown", Level: Warn, Note: ui.Message(e.Err)}
	case rest <= 0:
		return Fact{Name: "Expires", Value: "expired", Level: Bad}
	case e.Due:
		return Fact{Name: "Expires", Value: "in " + span.Of(rest), Level: Warn}
	default:
		return Fact{Name: "Expires", Value: "in " + span.Of(rest), Level: Good}
	}
}

// ContextFacts are what is known of a context beside its name; e is its enrollment's
// end, nil if it has none.
func ContextFacts(c contexts.View, e *enroll.Expiring, now time.Time) []Fact {
	kind, _ := SignsInBy(c)
	facts := []Fact{
		{Name: "Cluster", Value: join(text.Clean(c.Cluster), Server(c))},
		{Name: "User", Value: join(text.Clean(c.User), kind)},
		{Name: "Enrollment", Value: Keys(c)},
		{Name: "Namespace", Value: text.Clean(c.Namespace)},
		{Name: "Bridge", Value: bridgeOf(c)},
		{Name: "File", Value: text.Clean(c.File)},
	}
	if e == nil {
		return facts
	}
	end := Ending(*e, now)
	end.Name = "Until"
	if end.Value = Date(e.NotAfter) + " (" + end.Value + ")"; e.Err != nil {
		end.Value = "unknown: " + end.Note
	}
	if end.Level == Good {
		end.Level = Quiet
	}
	facts = append(facts, end)
	return facts
}
