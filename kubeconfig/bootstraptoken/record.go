package bootstraptoken

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Names that the cluster knows, of k8s.io/cluster-bootstrap/token/api.
const (
	// UserPrefix and the token ID make the user of a request that carries the
	// token.
	UserPrefix = "system:bootstrap:"
	// Group holds every such user.
	Group = "system:bootstrappers"
	// GroupPrefix begins every further group that a token may give.
	GroupPrefix = Group + ":"
	// NodeGroup is kubeadm's group for nodes that join. kubeadm's clusters
	// approve its members' node requests by themselves, so it is never right
	// for a person.
	NodeGroup = "system:bootstrappers:kubeadm:default-node-token"
)

// Usages of a token.
const (
	// Signing: cluster-info is signed with the token, for discovery.
	Signing = "signing"
	// Authentication: the token is good as a bearer token.
	Authentication = "authentication"
)

// KnownUsages are all usages, which is kubeadm's default too.
func KnownUsages() []string { return []string{Signing, Authentication} }

// DefaultTTL is kubeadm's.
const DefaultTTL = 24 * time.Hour

// maxDescription bounds a description, in bytes. Ours: a Secret takes a
// megabyte.
const maxDescription = 1024

// Record is a token with its terms.
type Record struct {
	Token Token
	// Description is for people; may be empty. Read from a cluster it is
	// untrusted text.
	Description string
	// Expires is when the cluster stops accepting the token and deletes it, to
	// the second; zero means never.
	Expires time.Time
	// Usages are of [KnownUsages]; a cluster may know others.
	Usages []string
	// Groups are those beside [Group], each beginning with [GroupPrefix].
	Groups []string
}

// Validate reports what makes the terms unusable, as an [ErrInvalid]: no
// token, no usage or an unknown one, a group outside [GroupPrefix], groups for
// a token that cannot authenticate, a description with control characters. A
// record whose time is up is valid: see [Record.Expired].
func (r Record) Validate() error {
	if r.Token.IsZero() {
		return fmt.Errorf("%w: there is no token", ErrInvalid)
	}
	if err := validUsages(r.Usages); err != nil {
		return err
	}
	if err := validGroups(r.Groups); err != nil {
		return err
	}
	if len(r.Groups) > 0 && !slices.Contains(r.Usages, Authentication) {
		return hint.Withf(fmt.Errorf("%w: groups are for a token that authenticates", ErrInvalid),
			"add %q to the usages, or leave the groups out", Authentication)
	}
	return validDescription(r.Description)
}

func validUsages(usages []string) error {
	if len(usages) == 0 {
		return hint.Withf(fmt.Errorf("%w: a token without a usage cannot be used", ErrInvalid), "usages are %s",
			strings.Join(KnownUsages(), " and "))
	}
	for _, u := range usages {
		if !slices.Contains(KnownUsages(), u) {
			return hint.Withf(fmt.Errorf("%w: unknown usage %q", ErrInvalid, u), "usages are %s",
				strings.Join(KnownUsages(), " and "))
		}
	}
	return nil
}

// validGroups holds groups to upstream's pattern,
// \Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z: one bad group makes the
// API server refuse the token.
func validGroups(groups []string) error {
	for _, g := range groups {
		rest, ok := strings.CutPrefix(g, GroupPrefix)
		end := strings.TrimRight(rest, ":-")
		odd := strings.ContainsFunc(rest, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != ':' && c != '-'
		})
		if !ok || rest == "" || len(rest) > 256 || end != rest || odd {
			return hint.Withf(fmt.Errorf("%w: group %q", ErrInvalid, g),
				"a group is %q and up to 256 of a-z, 0-9, colon and hyphen, ending in a letter or digit", GroupPrefix)
		}
	}
	return nil
}

func validDescription(text string) error {
	switch {
	case len(text) > maxDescription:
		return fmt.Errorf("%w: the description is longer than %d bytes", ErrInvalid, maxDescription)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%w: the description has control characters or is not UTF-8", ErrInvalid)
	}
	return nil
}

// ExpiresIn is now plus ttl, to the second as the cluster keeps it. A ttl of 0
// is the zero time: the token never expires. A negative one, or one below a
// second, is [ErrInvalid].
func ExpiresIn(now time.Time, ttl time.Duration) (time.Time, error) {
	switch {
	case ttl == 0:
		return time.Time{}, nil
	case ttl < time.Second:
		return time.Time{}, hint.Withf(fmt.Errorf("%w: a lifetime of %s", ErrInvalid, ttl),
			"the shortest is a second; 0 means that the token never expires")
	}
	return now.Add(ttl).UTC().Truncate(time.Second), nil
}

// Expired reports whether the cluster accepts the token no more at now.
func (r Record) Expired(now time.Time) bool { return !r.Expires.IsZero() && !now.Before(r.Expires) }

// Signs reports whether cluster-info is signed with the token.
func (r Record) Signs() bool { return slices.Contains(r.Usages, Signing) }

// Authenticates reports whether the token is good as a bearer token.
func (r Record) Authenticates() bool { return slices.Contains(r.Usages, Authentication) }

// Refused says why the API server signs nobody in with the token though it is meant for that, by a group
// that the API server takes from no token; nil if there is none.
func (r Record) Refused() error {
	if !r.Authenticates() {
		return nil
	}
	return validGroups(r.Groups)
}

// same reports whether o is this token with these terms.
func (r Record) same(o Record) bool {
	sorted := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return r.Token.Equal(o.Token) && r.Description == o.Description &&
		r.Expires.Truncate(time.Second).Equal(o.Expires) &&
		slices.Equal(sorted(r.Usages), sorted(o.Usages)) && slices.Equal(sorted(r.Groups), sorted(o.Groups))
}
