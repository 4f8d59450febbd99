package flow

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

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

// ConsentRuleWords write a rule as [ParseConsentRule] reads it.
func ConsentRuleWords(r consent.Rule) string {
	var fields []string
	for _, f := range []struct {
		key    string
		values []string
	}{{"verbs", r.Verbs}, {"resources", r.Resources}, {"namespaces", r.Namespaces}} {
		if len(f.values) > 0 {
			fields = append(fields, f.key+"="+strings.Join(f.values, ","))
		}
	}
	if r.DryRun {
		fields = append(fields, "dry-run")
	}
	if len(fields) == 0 {
		return "verbs=*"
	}
	return strings.Join(fields, " ")
}

// ParseConsentRule reads "verbs=delete resources=secrets,pods/exec namespaces=prod dry-run".
func ParseConsentRule(s string) (consent.Rule, error) {
	var r consent.Rule
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return r, errors.New("it is empty; verbs=* matches everything")
	}
	for _, field := range fields {
		if field == "dry-run" {
			r.DryRun = true
			continue
		}
		key, list, ok := strings.Cut(field, "=")
		to := map[string]*[]string{"verbs": &r.Verbs, "resources": &r.Resources, "namespaces": &r.Namespaces}[key]
		if !ok || to == nil || list == "" {
			return r, fmt.Errorf("%q is none of verbs=, resources=, namespaces=, dry-run", field)
		}
		*to = append(*to, strings.Split(list, ",")...)
	}
	return r, nil
}

// SameConsent tells whether two policies say the same.
func SameConsent(a, b consent.Policy) bool {
	mode := func(p consent.Policy) consent.Mode {
		if p.Mode == "" {
			return consent.Session
		}
		return p.Mode
	}
	return mode(a) == mode(b) && len(a.Rules) == len(b.Rules) && (len(a.Rules) == 0 || reflect.DeepEqual(a.Rules, b.Rules))
}
