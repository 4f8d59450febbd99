package consent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mode is the kind of a policy.
type Mode string

// The modes.
const (
	// Session asks for nothing beyond signing in. It is what "" means.
	Session Mode = "session"
	// Writes asks for everything that is not get, list or watch, for what connects
	// (exec, attach, port-forward, proxy) and for impersonation. Reviews of one's
	// own rights and dry runs are exempt, impersonated ones not.
	Writes Mode = "writes"
	// Always asks for everything but discovery.
	Always Mode = "always"
	// Rules asks for what one of the policy's rules matches.
	Rules Mode = "rules"
)

// Policy says which requests need a person's yes.
type Policy struct {
	Mode Mode `json:"mode,omitempty"`
	// Rules belong to the mode of that name.
	Rules []Rule `json:"rules,omitempty"`
}

// ParsePolicy reads a mode and rules as [ParseRule] reads them. Rules without a mode are [Rules].
func ParsePolicy(mode string, rules []string) (Policy, error) {
	p := Policy{Mode: Mode(mode)}
	if mode == "" && len(rules) > 0 {
		p.Mode = Rules
	}
	for _, text := range rules {
		r, err := ParseRule(text)
		if err != nil {
			return p, fmt.Errorf("rule %q: %w", text, err)
		}
		p.Rules = append(p.Rules, r)
	}
	return p, p.Validate()
}

// Policies are those of all enrollments of one key: a request needs a yes if any of them asks.
type Policies []Policy

// Asks reports whether one of the policies ever asks.
func (all Policies) Asks() bool { return slices.ContainsFunc(all, Policy.Asks) }

// AsksOfReading reports whether one of the policies may ask about a get, list or watch.
func (all Policies) AsksOfReading() bool { return slices.ContainsFunc(all, Policy.AsksOfReading) }

// Needs reports whether one of the policies asks about r. The error is that of [Policy.Needs].
func (all Policies) Needs(r Request) (bool, error) {
	for _, p := range all {
		if needs, err := p.Needs(r); needs || err != nil {
			return needs, err
		}
	}
	return false, nil
}

// Rule matches requests. An empty list matches all.
type Rule struct {
	// Verbs are the API's; "write" stands for all that [Writes] asks for, "connect"
	// for exec, attach, port-forward and proxy, "impersonate" for any request on
	// behalf of another. "delete" includes deletecollection.
	Verbs []string `json:"verbs,omitempty"`
	// Resources are "secrets", "deployments.apps", "pods/exec", "*/scale" or "*";
	// without a subresource all of them are meant, without a group those of every group.
	Resources []string `json:"resources,omitempty"`
	// Namespaces are names. A request that names none concerns all of them.
	Namespaces []string `json:"namespaces,omitempty"`
	// DryRun asks for dry runs too. Those that show what is there are asked for
	// where a rule is about reading it.
	DryRun bool `json:"dryRun,omitempty"`
}

var ruleVerbs = []string{"*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
	"write", "connect", "impersonate"}

const maxRules = 256

// Validate says what is wrong with p, or nil.
func (p Policy) Validate() error {
	switch p.Mode {
	case "", Session, Writes, Always:
		if len(p.Rules) > 0 {
			return fmt.Errorf("rules belong to the policy %q", Rules)
		}
		return nil
	case Rules:
	default:
		return fmt.Errorf("unknown policy %q", p.Mode)
	}
	if len(p.Rules) == 0 {
		return fmt.Errorf("the policy %q needs a rule", Rules)
	}
	if len(p.Rules) > maxRules {
		return fmt.Errorf("%d rules are more than %d", len(p.Rules), maxRules)
	}
	for i, r := range p.Rules {
		if err := r.validate(); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return nil
}

func (r Rule) validate() error {
	for _, v := range r.Verbs {
		if !slices.Contains(ruleVerbs, v) {
			return fmt.Errorf("unknown verb %q", v)
		}
	}
	for _, name := range slices.Concat(r.Resources, r.Namespaces) {
		if name == "" || strings.ToLower(name) != name || strings.ContainsFunc(name, func(c rune) bool {
			return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("-./*", c))
		}) {
			return fmt.Errorf("%q is not a name", name)
		}
		for part := range strings.SplitSeq(name, "/") {
			if first, _, _ := strings.Cut(part, "."); strings.Contains(part, "*") &&
				(first != "*" || strings.Count(part, "*") > 1) {
				return fmt.Errorf("%q: a star stands for a whole name", name)
			}
		}
	}
	for _, name := range r.Namespaces {
		if strings.ContainsAny(name, "/.") {
			return fmt.Errorf("%q is not a namespace", name)
		}
	}
	return nil
}

// Asks reports whether the policy ever asks.
func (p Policy) Asks() bool { return p.Mode != "" && p.Mode != Session }

// AsksOfReading reports whether the policy may ask about a get, list or watch.
func (p Policy) AsksOfReading() bool {
	reads := func(r Rule) bool {
		return len(r.Verbs) == 0 || slices.ContainsFunc(r.Verbs, func(v string) bool {
			return v == "*" || v == "get" || v == "list" || v == "watch"
		})
	}
	return p.Mode == Always || p.Mode == Rules && slices.ContainsFunc(p.Rules, reads)
}

// ErrOdd is wrapped by the error of [Policy.Needs].
var ErrOdd = errors.New("the request cannot be understood, so that nobody can be asked about it")

// Needs reports whether r needs a yes. The error wraps [ErrOdd]: it must not be
// served at all. A policy that is not valid asks for everything.
func (p Policy) Needs(r Request) (bool, error) {
	if !p.Asks() {
		return false, nil
	}
	if r.Odd != "" {
		return true, fmt.Errorf("%w: %s", ErrOdd, r.Odd)
	}
	switch p.Mode {
	case "", Session:
		return false, nil
	case Writes:
		return r.Writes() && (!r.DryRun || r.As != "") && !r.aboutSelf(), nil
	case Rules:
		return !r.aboutSelf() && slices.ContainsFunc(p.Rules, func(rule Rule) bool { return rule.matches(r) }), nil
	}
	return !r.discovers(), nil
}

// Writes reports whether the request is more than a look: it changes, connects, or
// is sent on behalf of another.
func (r Request) Writes() bool {
	reads := r.safeMethod && (r.Resource == "" || r.Verb == "get" || r.Verb == "list" || r.Verb == "watch")
	return !reads || r.Connecting || r.As != ""
}

// aboutSelf recognizes the SelfSubject*Reviews: questions in the form of a create.
func (r Request) aboutSelf() bool {
	if r.Verb != "create" || r.As != "" || r.Connecting || r.Name != "" || r.Subresource != "" || r.Namespace != "" {
		return false
	}
	switch r.Group {
	case "authorization.k8s.io":
		return r.Resource == "selfsubjectaccessreviews" || r.Resource == "selfsubjectrulesreviews"
	case "authentication.k8s.io":
		return r.Resource == "selfsubjectreviews"
	}
	return false
}

// discovers recognizes the requests that every client sends first: the list of APIs, and the
// server's health.
func (r Request) discovers() bool {
	if !r.safeMethod || r.Resource != "" || r.Connecting || r.As != "" {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	return slices.Contains([]string{"api", "apis", "openapi", "version", "healthz", "livez", "readyz"}, first)
}

func (rule Rule) matches(r Request) bool {
	verb := rule.verb(r)
	if r.DryRun && r.As == "" && !rule.DryRun {
		verb = rule.showsData(r)
	}
	return verb && rule.resource(r) && rule.namespace(r)
}

// showsData reports whether the rule is about verbs whose dry run shows existing objects: all but
// create.
func (rule Rule) showsData(r Request) bool {
	return r.Verb != "create" && (len(rule.Verbs) == 0 || slices.ContainsFunc(rule.Verbs, func(v string) bool {
		return v == "*" || v == "get" || v == "list" && r.Verb == "deletecollection"
	}))
}

func (rule Rule) verb(r Request) bool {
	if len(rule.Verbs) == 0 {
		return true
	}
	return slices.ContainsFunc(rule.Verbs, func(v string) bool {
		switch v {
		case "*", r.Verb:
			return true
		case "write":
			return r.Writes()
		case "connect":
			return r.Connecting
		case "impersonate":
			return r.As != ""
		case "create": // the verb that the API server authorises a connection with, GET or not
			if r.Connecting {
				return true
			}
		case "delete":
			if r.Verb == "deletecollection" {
				return true
			}
		}
		return r.Verb == "" || r.Resource == "" && !r.safeMethod // may do anything
	})
}

func (rule Rule) resource(r Request) bool {
	if len(rule.Resources) == 0 || r.Resource == "" && !r.safeMethod {
		return true
	}
	return slices.ContainsFunc(rule.Resources, func(want string) bool {
		if want == "*" {
			return true
		}
		want, sub, hasSub := strings.Cut(want, "/")
		name, group, hasGroup := strings.Cut(want, ".")
		return (name == r.Resource || name == "*") && (!hasGroup || group == r.Group) && (!hasSub || sub == r.Subresource)
	})
}

func (rule Rule) namespace(r Request) bool {
	return len(rule.Namespaces) == 0 || r.Namespace == "" || slices.Contains(rule.Namespaces, "*") ||
		slices.Contains(rule.Namespaces, r.Namespace)
}
