package revocation

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of what is written.
const (
	// Label marks the policies and their bindings, so that one command finds them all.
	Label = "kubehsm.github.io/revocation"
	// RecoveryGroup is the group that is spared unless [Settings] name another. Its name is reserved: only an admin
	// gives it, to a token in a safe.
	RecoveryGroup = "kubehsm:sealed"
	// PolicyPrefix begins the names of the policies, and a number from 1 ends them; the name of
	// a binding is its policy's.
	PolicyPrefix = "kubehsm-revoked-"
	// NamedPolicies is how many policies, from the first, the help desk's role may read by name.
	NamedPolicies = 16

	apiVersion   = "admissionregistration.k8s.io/v1"
	policyKind   = "ValidatingAdmissionPolicy"
	bindingKind  = "ValidatingAdmissionPolicyBinding"
	probePrefix  = "kubehsm-probe-" // begins the name of the ConfigMap whose dry run tells what is in force
	settingsNote = "kubehsm.github.io/revocation-settings"
	inForce      = "kubehsm has this list in force: "
)

// The limits of one policy. Each policy takes part in every write, so few large ones are better.
const (
	// MaxLiteral bounds the text of one literal, in bytes: the API server compiles no expression of
	// more than 100,000 code points (parser.go in github.com/google/cel-go).
	MaxLiteral = 96_000
	// maxPolicy bounds the text of all literals together, in bytes: etcd takes 1.5 MiB.
	maxPolicy = 1_350_000
	// maxEntries bounds how many entries there are: the filter takes 9 bytes of each.
	maxEntries = 10_000
)

// filterDigits is how many digits of a fingerprint the filter compares. With [maxEntries] entries
// one other certificate of 1,700 passes it, and is looked up in the literals.
const filterDigits = 6

// MinMinor is the first minor version of Kubernetes 1 that tells admission policies of
// certificates. Versions before it take the policies, and refuse nobody.
const MinMinor = 32

// Object is an object of the API, as JSON has it.
type Object = map[string]any

// Settings are the choices that all policies share. The zero value is the default.
type Settings struct {
	// FailClosed refuses the writes of the certificates that pass a policy's filter, except for
	// nodes and the recovery group, where a policy cannot be evaluated. By default such a
	// policy is passed over.
	FailClosed bool `json:"failClosed,omitempty"`
	// Spared is the group whose members are never refused; "" is [RecoveryGroup].
	Spared string `json:"spared,omitempty"`
}

// sparedPrefix begins every group that may be spared: the help desk cannot give those out.
const sparedPrefix = "kubehsm:"

// ErrSpared is a group that may not be spared: too many are in it, or may get into it.
var ErrSpared = errors.New("only a group whose name begins with " + sparedPrefix + " can be the recovery group")

func (s Settings) check() error {
	if !strings.HasPrefix(s.SparedGroup(), sparedPrefix) || s.Spared == sparedPrefix {
		return fmt.Errorf("%q: %w", s.Spared, ErrSpared)
	}
	return nil
}

// SparedGroup is the group that is spared.
func (s Settings) SparedGroup() string { return cmp.Or(s.Spared, RecoveryGroup) }

// Shard is one policy: a part of the list that fits into one object.
type Shard struct {
	Name     string
	Entries  []Entry
	Settings Settings
	// Bound says whether the policy has its binding, without which it has no effect.
	Bound bool
	// Differs says that its rules are not those that this version writes. The next write
	// puts them right.
	Differs bool
	// Err says why the entries cannot be read. Such a policy is left as it is.
	Err error

	object Object // object as it was read

	// What the write of the shard was about, for a later state to be held against.
	added, dropped []string // certificates
	settled        bool     // the settings were to be these
}

// holds tells whether a later state of the shard has what this one's write was about.
func (s Shard) holds(later Shard) bool {
	on := map[string]bool{}
	for _, e := range later.Entries {
		on[e.Certificate] = true
	}
	return later.Err == nil && later.Bound && !later.Differs &&
		!slices.ContainsFunc(s.added, func(c string) bool { return !on[c] }) &&
		!slices.ContainsFunc(s.dropped, func(c string) bool { return on[c] }) &&
		(!s.settled || later.Settings == s.Settings)
}

// Revision names what the shard says. The API server repeats it once that is in force.
func (s Shard) Revision() string {
	sum := sha256.Sum256([]byte(quote(s.spec(""))))
	return hex.EncodeToString(sum[:8])
}

// listName begins the names of the variables that hold entries. A digit follows, the first of the
// fingerprints.
const listName = "revoked"

// digits are those that a fingerprint may begin with.
const digits = "0123456789abcdef"

// lists are the entries as literals, by the name of their variable. There is at least one.
func (s Shard) lists() map[string]string {
	texts := map[string][]string{} // by certificates
	for _, e := range s.Entries {
		if text, err := e.text(); err == nil { // entries are checked as they come in
			texts[e.Certificate] = append(texts[e.Certificate], text)
		}
	}
	lines := map[string][]string{}
	for certificate, all := range texts {
		name := Entry{Certificate: certificate}.list()
		lines[name] = append(lines[name], line(certificate, all...))
	}
	if len(lines) == 0 {
		lines[listName+digits[:1]] = nil
	}
	all := map[string]string{}
	for name, l := range lines {
		slices.Sort(l)
		all[name] = "{\n" + strings.Join(l, ",\n") + "\n}"
	}
	return all
}

// list is the name of the variable that holds the entry.
func (e Entry) list() string { return listName + e.Certificate[:1] }

// filter is a list of the first digits of all entries' fingerprints, in CEL. A list of
// constants is a set to the API server, so its length does not matter.
func (s Shard) filter() string {
	var all []string
	for _, e := range s.Entries {
		all = append(all, quote(e.Certificate[:filterDigits]))
	}
	slices.Sort(all)
	return "[" + strings.Join(slices.Compact(all), ",") + "]"
}

// quote is v in JSON, which is CEL too. It has strings, bools, lists and maps.
func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("revocation: marshal: " + err.Error())
	}
	return string(b)
}

// Policy is the shard as a ValidatingAdmissionPolicy.
func (s Shard) Policy() Object {
	return Object{
		"apiVersion": apiVersion, "kind": policyKind,
		"metadata": Object{"name": s.Name, "labels": Object{Label: "true"},
			"annotations": Object{settingsNote: quote(s.Settings)}},
		"spec": s.spec(s.Revision()),
	}
}

// spec is the policy's, which repeats revision when it is in force.
func (s Shard) spec(revision string) Object {
	failure := "Ignore"
	if s.Settings.FailClosed {
		failure = "Fail"
	}
	// A collection's deletion has no name: what is not there must be no error, which would let it pass.
	probe := `request.?dryRun.orValue(false) && request.resource.resource == "configmaps" &&
request.?name.orValue("") == ` + quote(s.ProbeName())
	// Nearly every write ends with the filter, which comes first and is much quicker than the variables.
	person := `request.userInfo.?extra[?"` + CredentialID + `"].orValue([]).exists(c, c.startsWith("` +
		CertificatePrefix + `") &&
c.substring(` + fmt.Sprintf("%d, %d", len(CertificatePrefix), len(CertificatePrefix)+filterDigits) +
		`).lowerAscii() in ` +
		s.filter() + `) &&
!request.userInfo.?groups.orValue([]).exists(g, g == "system:nodes" || g == ` + quote(s.Settings.SparedGroup()) + `)`
	expression := func(name, text string) Object { return Object{"name": name, "expression": text} }
	variables := []any{
		expression("probe", probe),
		expression("used", `request.userInfo.?extra[?"`+CredentialID+`"].orValue([]).filter(c, c.startsWith("`+
			CertificatePrefix+`")).map(c, c.substring(`+fmt.Sprint(len(CertificatePrefix))+`).lowerAscii())`),
	}
	// A variable is evaluated when it is needed: one of the lists.
	list := `{"": ""}`
	var sizes []string
	lists := s.lists()
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		variables = append(variables, expression(name, lists[name]))
		list = `c.startsWith("` + strings.TrimPrefix(name, listName) + `") ? variables.` + name + " : " + list
		sizes = append(sizes, "size(variables."+name+")")
	}
	variables = append(variables, expression("found",
		"variables.used.filter(c, c in ("+list+")).map(c, [c] + ("+list+")[c].split("+quote(partsBetween)+"))"))
	return Object{
		"failurePolicy": failure,
		"matchConstraints": Object{"matchPolicy": "Equivalent", "resourceRules": []any{Object{
			"apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "operations": []any{"*"}, "resources": []any{"*/*"},
			"scope": "*"}}},
		"matchConditions": []any{expression("by-a-client-certificate", "("+probe+") || ("+person+")")},
		"variables":       variables,
		"validations": []any{
			Object{"expression": `variables.probe || size(variables.found) == 0`,
				"reason": "Forbidden", "messageExpression": message()},
			// the list is part of it, so that one that cannot be evaluated is not said to be in force
			Object{"expression": `!(variables.probe && ` + strings.Join(sizes, " + ") + ` >= 0)`, "reason": "Forbidden",
				"message": inForce + revision},
		},
	}
}

// message is what a refused user reads: that it is the certificate, why, and whom to ask.
func message() string {
	part := func(at int) string { return fmt.Sprintf("e[%d]", at+1) } // the certificate comes first
	return `variables.found.map(e, "the client certificate " + e[0].substring(0, 16) + "…" +
(` + part(atUser) + ` == "" ? "" : " of " + ` + part(atUser) + `) +
" was revoked on " + ` + part(atDay) + ` + " by " + ` + part(atBy) + ` +
(` + part(atReason) + ` == "" ? "" : ": " + ` + part(atReason) + `) + "; ask them, or a cluster admin")[0]`
}

// Binding is what puts the shard's policy in force.
func (s Shard) Binding() Object {
	return Object{"apiVersion": apiVersion, "kind": bindingKind,
		"metadata": Object{"name": s.Name, "labels": Object{Label: "true"}},
		"spec":     Object{"policyName": s.Name, "validationActions": []any{"Deny"}}}
}

// ProbeName is the name of a ConfigMap that the API server refuses in a dry run, to anybody
// who may create one, once the policy is in force.
func (s Shard) ProbeName() string { return probePrefix + s.Name }

// InForce tells which revision of a shard the API server enforces, by the words with which
// it refused [Shard.ProbeName]; "" if it enforces none.
func InForce(refusal error) string {
	if refusal == nil {
		return ""
	}
	_, after, _ := strings.Cut(refusal.Error(), inForce)
	revision, _, _ := strings.Cut(after, " ")
	return revision
}

// stated is the revision that the policy says it is of, as it was read; "" if it says none.
func (s Shard) stated() string {
	validations, _ := at(s.object, "spec", "validations").([]any)
	for _, v := range validations {
		if said, ok := at(v, "message").(string); ok && strings.HasPrefix(said, inForce) {
			return strings.TrimPrefix(said, inForce)
		}
	}
	return ""
}

// IsRefusal tells whether err is the refusal of a revoked certificate.
func IsRefusal(err error) bool {
	return err != nil && strings.Contains(err.Error(), policyKind+" '"+PolicyPrefix) && InForce(err) == ""
}

// ErrUnreadable is a policy whose list of entries somebody else has changed.
var ErrUnreadable = errors.New("its list of revoked certificates cannot be read")

// shardOf reads a policy. What cannot be read is in the shard's Err.
func shardOf(o Object) Shard {
	name, _ := at(o, "metadata", "name").(string)
	s := Shard{Name: name, object: o}
	note, _ := at(o, "metadata", "annotations", settingsNote).(string)
	if json.Unmarshal([]byte(note), &s.Settings) != nil {
		s.Settings = Settings{}
	}
	var err error
	if s.Entries, err = entriesOf(o); err != nil {
		s.Err = fmt.Errorf("policy %s: %w: %w", name, ErrUnreadable, err)
	}
	s.Differs = s.changed()
	return s
}

// entriesOf reads the entries of a policy.
func entriesOf(policy Object) (entries []Entry, err error) {
	list, _ := at(policy, "spec", "variables").([]any)
	found := false
	for _, v := range list {
		v, _ := v.(Object)
		name, _ := v["name"].(string)
		digit, isList := strings.CutPrefix(name, listName)
		if !isList || len(digit) != 1 || !strings.Contains(digits, digit) {
			continue
		}
		found = true
		text, _ := v["expression"].(string)
		var all map[string]string
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return nil, err
		}
		for _, hash := range slices.Sorted(maps.Keys(all)) {
			for list := range slices.Chunk(strings.Split(all[hash], partsBetween), parts) {
				e, err := entryOf(hash, list)
				if err != nil {
					return nil, err
				}
				entries = append(entries, e)
			}
		}
	}
	if !found {
		return nil, errors.New("it has none")
	}
	return entries, nil
}

// covers tells whether got says what want does, and no more: the API server adds defaults,
// which are empty.
func covers(got, want any) bool {
	switch want := want.(type) {
	case Object:
		g, ok := got.(Object)
		for k, v := range want {
			ok = ok && covers(g[k], v)
		}
		for k, v := range g {
			_, wanted := want[k]
			ok = ok && (wanted || empty(v))
		}
		return ok
	case []any:
		g, ok := got.([]any)
		ok = ok && len(g) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = covers(g[i], want[i])
		}
		return ok
	}
	return got == want
}

func empty(v any) bool {
	switch v := v.(type) {
	case Object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil || v == ""
}

func at(o any, path ...string) any {
	for _, p := range path {
		m, _ := o.(Object)
		o = m[p]
	}
	return o
}

// rewritten is the object to replace the policy by: as it was read, with the shard's parts.
func (s Shard) rewritten() Object {
	next, now := maps.Clone(s.object), s.Policy()
	meta, _ := at(s.object, "metadata").(Object)
	meta = maps.Clone(meta)
	delete(meta, "managedFields")
	for _, part := range []string{"labels", "annotations"} {
		old, _ := meta[part].(Object)
		merged := Object{}
		maps.Copy(merged, old)
		own, _ := at(now, "metadata", part).(Object)
		maps.Copy(merged, own)
		meta[part] = merged
	}
	next["metadata"], next["spec"] = meta, now["spec"]
	return next
}

// changed tells whether the policy in the cluster says something else than the shard.
func (s Shard) changed() bool {
	return !covers(at(s.object, "spec"), s.Policy()["spec"]) ||
		at(s.object, "metadata", "labels", Label) != "true" || // a look by the label would miss the entries
		at(s.object, "metadata", "annotations", settingsNote) != quote(s.Settings)
}
