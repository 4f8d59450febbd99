package present

import "github.com/kubehsm/kubehsm/plugin/consent"

// ConsentWords say what a policy does; "" is [consent.Session].
func ConsentWords(m consent.Mode) string {
	switch m {
	case consent.Session, "":
		return "session: signing in is enough"
	case consent.Writes:
		return "writes: all but reading needs your yes, and so do exec, attach, port-forward, proxy and impersonation"
	case consent.Always:
		return "always: every command needs your yes"
	case consent.Rules:
		return "rules: what one of these matches needs your yes"
	}
	return string(m)
}
