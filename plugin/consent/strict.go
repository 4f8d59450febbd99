package consent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a policy that is made of several: whoever writes files for the user can add to
// them without end, and each request is judged by all parts.
const (
	maxParts     = 32
	maxPartRules = maxRules // in all parts together
)

// everything is the mode of what was more than the bounds allow. No program knows it, so that
// the policy is not valid, and asks for everything.
const everything Mode = "everything"

// Strictest is the policy that asks for what any of several asks for: those of all
// enrollments of one key. Where that takes too many parts it asks for everything.
func Strictest(all ...Policy) Policy {
	if len(all) == 0 {
		return Policy{}
	}
	parts := all[0].Parts() // none of them covers another one
	for _, p := range all[1:] {
		for _, part := range p.Parts() {
			if !slices.ContainsFunc(parts, func(kept Policy) bool { return kept.Covers(part) }) {
				parts = append(slices.DeleteFunc(parts, part.Covers), part)
			}
		}
	}
	most, rules := parts[0], 0
	for _, part := range parts {
		rules += len(part.Rules)
	}
	if len(parts) > maxParts || len(parts) > 1 && rules > maxPartRules {
		return Policy{Mode: everything}
	}
	if len(parts) > 1 {
		most.also = parts[1:]
	}
	return most
}

// Covers tells whether p is as strict as old: it certainly asks for all that old asks
// for. Changing old to p then lowers nothing. Rules are compared one by one, so that
// two rules that only together ask for as much as one of old do not count:
//
//   - every policy covers session, writes covers rules about changes, connections and
//     impersonation, and always covers writes;
//   - always covers rules, unless a rule asks for discovery too;
//   - rules cover writes if one of them is about all of it, and never always, which
//     asks for reviews of one's own rights too.
func (p Policy) Covers(old Policy) bool {
	if len(old.also) > 0 {
		return p.Covers(old.alone()) && !slices.ContainsFunc(old.also, func(o Policy) bool { return !p.Covers(o) })
	}
	if slices.ContainsFunc(p.also, func(a Policy) bool { return a.Covers(old) }) {
		return true
	}
	if !old.Asks() || p.Validate() != nil { // an invalid policy asks for everything
		return true
	}
	if !p.Asks() || old.Validate() != nil {
		return false
	}
	switch {
	case p.Mode == Always:
		return old.Mode != Rules || !slices.ContainsFunc(old.Rules, Rule.discovers)
	case old.Mode == Always:
		return false
	case p.Mode == Writes:
		return old.Mode == Writes || !slices.ContainsFunc(old.Rules, func(r Rule) bool { return !r.onlyWrites() })
	case old.Mode == Writes:
		return slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.covers(Rule{Verbs: []string{"write"}}) })
	}
	return !slices.ContainsFunc(old.Rules, func(o Rule) bool {
		return !slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.covers(o) })
	})
}

// Parts are the policies that p is made of, see [Strictest]: p itself, where it is one.
func (p Policy) Parts() []Policy { return append([]Policy{p.alone()}, p.also...) }

// Joined is one policy in place of the parts of p, short enough for any key to sign. It asks for
// everything that a part asks for, except discovery if a part is [Always].
func (p Policy) Joined() Policy {
	if len(p.also) == 0 && p.Validate() == nil && len(p.words()) <= maxWords {
		return p
	}
	joined := Policy{Mode: Rules}
	for _, part := range p.Parts() {
		switch part.Mode {
		case Rules:
			joined.Rules = append(joined.Rules, part.Rules...)
		case Writes:
			joined.Rules = append(joined.Rules, Rule{Verbs: []string{"write"}})
		default:
			return Policy{Mode: Always}
		}
	}
	if joined.Validate() != nil || len(joined.words()) > maxWords { // too many rules, or one of a later program
		return Policy{Mode: Always}
	}
	return joined
}

func (p Policy) alone() Policy {
	p.also = nil
	return p
}

// writing are the verbs of rules that ask for nothing but what [Writes] asks for.
var writing = []string{"create", "update", "patch", "delete", "deletecollection", "write", "connect", "impersonate"}

func (rule Rule) onlyWrites() bool {
	return len(rule.Verbs) > 0 && !rule.DryRun &&
		!slices.ContainsFunc(rule.Verbs, func(v string) bool { return !slices.Contains(writing, v) })
}

// discovers tells whether a rule may ask for what the policy always leaves out.
func (rule Rule) discovers() bool {
	return (all(rule.Verbs) || slices.Contains(rule.Verbs, "get")) && all(rule.Resources)
}

// all tells whether a list of a rule matches everything.
func all(list []string) bool { return len(list) == 0 || slices.Contains(list, "*") }

// covers tells whether a rule certainly matches all that another one does.
func (rule Rule) covers(old Rule) bool {
	within := func(mine, theirs []string, also func(string) bool) bool {
		return all(mine) || !all(theirs) &&
			!slices.ContainsFunc(theirs, func(t string) bool { return !slices.Contains(mine, t) && !also(t) })
	}
	exactly := func(string) bool { return false }
	return (rule.DryRun || !old.DryRun) &&
		within(rule.Resources, old.Resources, exactly) && within(rule.Namespaces, old.Namespaces, exactly) &&
		within(rule.Verbs, old.Verbs, func(v string) bool {
			switch {
			case slices.Contains(writing, v) && slices.Contains(rule.Verbs, "write"):
				return true
			case v == "deletecollection":
				return slices.Contains(rule.Verbs, "delete")
			}
			return v == "connect" && slices.Contains(rule.Verbs, "create")
		})
}

// maxText bounds what [Policy.String] returns.
const maxText = 2 << 10

// String is the policy in words that [Rule.String] writes, the same for two policies
// only if they are the same: "writes", "rules: verbs=delete; resources=secrets". Of a
// policy that is made of several it has them all, which [ParsePolicy] does not read.
func (p Policy) String() string {
	if len(p.also) > 0 {
		var all []string
		for _, part := range p.Parts() {
			all = append(all, part.String())
		}
		if s := strings.Join(all, ", and "); len(s) <= maxText {
			return s
		}
		return fmt.Sprintf("%d policies together", len(all))
	}
	s := p.words()
	if len(s) > maxText {
		sum := sha256.Sum256([]byte(s))
		s = fmt.Sprintf("%s: %d, sha256 %s", p.Mode, len(p.Rules), hex.EncodeToString(sum[:]))
	}
	return s
}

// words are the policy in words, of whatever length. [ParsePolicy] reads them.
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

// ParsePolicy reads what [Policy.String] writes. What it does not understand, such
// as the digest of many rules, becomes a policy that is not valid.
func ParsePolicy(s string) Policy {
	mode, rules, _ := strings.Cut(s, ": ")
	p := Policy{Mode: Mode(mode)}
	if rules == "" {
		return p
	}
	for each := range strings.SplitSeq(rules, "; ") {
		r, err := ParseRule(each)
		if err != nil {
			return Policy{Mode: "unknown"}
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}
