package consent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const maxText = 2 << 10

// String is the policy in words that [Rule.String] writes, the same for two policies
// only if they are the same: "writes", "rules: verbs=delete; resources=secrets".
func (p Policy) String() string {
	s := p.words()
	if len(s) > maxText {
		sum := sha256.Sum256([]byte(s))
		s = fmt.Sprintf("%s: %d, sha256 %s", p.Mode, len(p.Rules), hex.EncodeToString(sum[:]))
	}
	return s
}

func (p Policy) words() string {
	mode := p.Mode
	if mode == "" {
		mode = Session
	}
	if len(p.Rules) == 0 {
		return string(mode)
	}
	rules := make([]string, 0, len(p.Rules))
	for _, r := range p.Rules {
		rules = append(rules, r.String())
	}
	return string(mode) + ": " + strings.Join(rules, "; ")
}

// String writes a rule as people do: "verbs=get,list resources=secrets dry-run".
func (rule Rule) String() string {
	var fields []string
	for _, f := range []struct {
		key    string
		values []string
	}{{"verbs", rule.Verbs}, {"resources", rule.Resources}, {"namespaces", rule.Namespaces}} {
		if len(f.values) > 0 {
			fields = append(fields, f.key+"="+strings.Join(f.values, ","))
		}
	}
	if rule.DryRun {
		fields = append(fields, "dry-run")
	}
	if len(fields) == 0 {
		return "verbs=*"
	}
	return strings.Join(fields, " ")
}

// ParseRule reads what [Rule.String] writes: "verbs=delete resources=secrets,pods/exec namespaces=prod dry-run".
func ParseRule(s string) (Rule, error) {
	var r Rule
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
