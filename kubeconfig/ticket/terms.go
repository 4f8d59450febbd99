package ticket

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/internal/problem"
)

// Group is the group of every ticket's token. The roles for it allow to create
// and follow certificate requests and nothing else. It is never kubeadm's group
// of nodes, whose requests are approved without anybody looking.
const Group = "system:bootstrappers:kubehsm:tickets"

// MaxTTL is the longest that a ticket is good for.
const MaxTTL = 24 * time.Hour

// Policy is what the key must be like, as bits.
type Policy uint8

// What a policy can ask for. All of it can be seen by the approver in the
// token's attestation only, so that the others imply [Attested].
const (
	// Attested: the token attests that the key was made in it.
	Attested Policy = 1 << iota
	// TouchAlways: every signature needs a touch.
	TouchAlways
	// TouchCached: a signature needs a touch, which may count for 15 s.
	TouchCached
	// PINOnce: the key wants the PIN, once a session at least.
	PINOnce
	// PINAlways: every signature wants the PIN.
	PINAlways

	allPolicies = TouchAlways | TouchCached | PINOnce | PINAlways | Attested
)

var policyNames = []struct {
	bit  Policy
	name string
}{{Attested, "attested"}, {TouchAlways, "touch-always"}, {TouchCached, "touch-cached"}, {PINOnce, "pin-once"},
	{PINAlways, "pin-always"}}

// PolicyNames are the words that [ParsePolicy] knows.
func PolicyNames() []string {
	var names []string
	for _, p := range policyNames {
		names = append(names, p.name)
	}
	return names
}

// ParsePolicy reads words such as "attested,touch-always"; "" asks for nothing.
func ParsePolicy(text string) (Policy, error) {
	var p Policy
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		i := slices.Index(PolicyNames(), strings.ToLower(word))
		if i < 0 {
			return 0, problem.BadInput("policy", "there are "+strings.Join(PolicyNames(), ", "), "%q is no policy", word)
		}
		p |= policyNames[i].bit
	}
	if p != 0 {
		p |= Attested
	}
	return p, nil
}

// Has reports whether p asks for all of what.
func (p Policy) Has(what Policy) bool { return p&what == what }

// String is the form that [ParsePolicy] reads.
func (p Policy) String() string {
	var words []string
	for _, n := range policyNames {
		if p.Has(n.bit) {
			words = append(words, n.name)
		}
	}
	return strings.Join(words, ",")
}

// MarshalText is [Policy.String].
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is [ParsePolicy].
func (p *Policy) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePolicy(string(text))
	return err
}

// Terms are what a ticket lets a person ask for. They hold nothing secret.
type Terms struct {
	// User and Groups are the certificate's CN and O.
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// Signer is the signer's name; "" means the one for clients of the API server.
	Signer string `json:"signer,omitempty"`
	// Lifetime is the certificate's, in whole seconds; 0 leaves it to the signer.
	Lifetime time.Duration `json:"lifetime,omitempty"`
	// Policy is what the key must be like.
	Policy Policy `json:"policy,omitzero"`
	// Serial, if set, is the serial number of the only token that will do.
	Serial string `json:"serial,omitempty"`
}

// descriptionPrefix begins the description of a ticket's token.
const descriptionPrefix = "kubehsm ticket: "

// Description is the terms as the description of the ticket's token keeps them
// in the cluster: one line for people and for [ParseDescription].
func (t Terms) Description() string { return descriptionPrefix + t.encode() }

func (t Terms) encode() string {
	v := url.Values{"user": {t.User}}
	for key, value := range map[string]string{"signer": t.Signer, "policy": t.Policy.String(), "serial": t.Serial} {
		if value != "" {
			v.Set(key, value)
		}
	}
	if len(t.Groups) > 0 {
		v["group"] = t.Groups
	}
	if t.Lifetime != 0 {
		v.Set("lifetime", t.Lifetime.String())
	}
	return v.Encode()
}

// TermsPrefix begins the groups that carry the terms of a ticket, beside [Group].
// The API server writes the groups of a token on each request that is filed with
// it: whoever approves sees there what the ticket is for, without the right to
// read the token, and its holder cannot change it.
const TermsPrefix = bootstraptoken.GroupPrefix + "kubehsm:terms:"

// termsChunk is how much of the terms goes into one group: upstream's pattern
// takes 256 characters after its prefix.
const termsChunk = 200

// TokenGroups are the groups of the ticket's token: [Group], and those that carry
// the terms, TermsPrefix + "1-2:" + lower-case base32 and so on.
func (t Terms) TokenGroups() []string {
	chunks := slices.Collect(slices.Chunk([]byte(strings.ToLower(alphabet().EncodeToString([]byte(t.encode())))),
		termsChunk))
	groups := []string{Group}
	for i, c := range chunks {
		groups = append(groups, fmt.Sprintf("%s%d-%d:%s", TermsPrefix, i+1, len(chunks), c))
	}
	return groups
}

// TermsOf reads the terms from the groups of whoever filed a request. Without any
// of [Terms.TokenGroups] it is [ErrNoTerms], which is a token that is no ticket's;
// where they cannot be read, [ErrTerms].
func TermsOf(groups []string) (Terms, error) {
	chunks := map[string]string{}
	for _, g := range groups {
		if rest, ok := strings.CutPrefix(g, TermsPrefix); ok {
			place, chunk, _ := strings.Cut(rest, ":")
			if chunks[place] != "" {
				return Terms{}, fmt.Errorf("%w: a part appears twice", ErrTerms)
			}
			chunks[place] = chunk
		}
	}
	if len(chunks) == 0 {
		return Terms{}, ErrNoTerms
	}
	var text strings.Builder
	for i := range len(chunks) {
		chunk := chunks[fmt.Sprintf("%d-%d", i+1, len(chunks))]
		if chunk == "" {
			return Terms{}, fmt.Errorf("%w: a part is missing", ErrTerms)
		}
		text.WriteString(strings.ToUpper(chunk))
	}
	if text.Len() > maxEncoded {
		return Terms{}, fmt.Errorf("%w: they are too long", ErrTerms)
	}
	plain, err := alphabet().DecodeString(text.String())
	if err != nil {
		return Terms{}, fmt.Errorf("%w: they are not in base32", ErrTerms)
	}
	t, err := parseTerms(string(plain))
	if err != nil {
		return Terms{}, fmt.Errorf("%w: %w", ErrTerms, err)
	}
	return t, nil
}

// ErrNoTerms: a description does not belong to a ticket's token.
var ErrNoTerms = errors.New("not the description of a ticket")

// ParseDescription reads what [Terms.Description] wrote; anything else is
// [ErrNoTerms]. A word that is not known is refused too: it may be a condition.
func ParseDescription(text string) (Terms, error) {
	rest, ok := strings.CutPrefix(text, descriptionPrefix)
	if !ok {
		return Terms{}, ErrNoTerms
	}
	t, err := parseTerms(rest)
	if err != nil {
		return Terms{}, fmt.Errorf("%w: %w", ErrNoTerms, err)
	}
	return t, nil
}

func parseTerms(text string) (Terms, error) {
	v, err := url.ParseQuery(text)
	if err != nil {
		return Terms{}, err
	}
	var t Terms
	for key, values := range v {
		if key != "group" && len(values) != 1 {
			return Terms{}, fmt.Errorf("%q appears more than once", key)
		}
		var err error
		switch key {
		case "user":
			t.User = values[0]
		case "group":
			t.Groups = values
		case "signer":
			t.Signer = values[0]
		case "serial":
			t.Serial = values[0]
		case "policy":
			t.Policy, err = ParsePolicy(values[0])
		case "lifetime":
			t.Lifetime, err = time.ParseDuration(values[0])
		default:
			err = fmt.Errorf("unknown condition %q", key)
		}
		if err != nil {
			return Terms{}, err
		}
	}
	if t.User == "" {
		return Terms{}, errors.New("it names no user")
	}
	return t, nil
}
