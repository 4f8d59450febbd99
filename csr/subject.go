package csr

import (
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// ClientSigner is the signer of certificates that authenticate to the API
// server, and the default everywhere in this package.
const ClientSigner = certificatesv1.KubeAPIServerClientSignerName

// mastersGroup bypasses RBAC; the API server refuses it for ClientSigner.
const mastersGroup = "system:masters"

// Subject is whom a certificate stands for. Kubernetes reads the user from the
// common name and the groups from the organizations.
type Subject struct {
	// User is the user name (CN); it must not be empty.
	User string
	// Groups are the group names (O), in no particular order.
	Groups []string
}

// Name is the subject as the distinguished name of a request.
func (s Subject) Name() pkix.Name {
	return pkix.Name{CommonName: s.User, Organization: slices.Clone(s.Groups)}
}

// Validate checks that the subject can be asked for from signer (empty means
// ClientSigner). The error is an *InputError.
func (s Subject) Validate(signer string) error {
	if err := validateName("user", s.User); err != nil {
		return err
	}
	if len(s.Groups) > MaxGroups {
		return &InputError{Field: "group", Problem: fmt.Sprintf("%d groups are more than %d", len(s.Groups), MaxGroups)}
	}
	for i, g := range s.Groups {
		if err := validateName("group", g); err != nil {
			return err
		}
		if slices.Contains(s.Groups[:i], g) {
			return &InputError{Field: "group", Problem: fmt.Sprintf("%q is named twice", g)}
		}
		if g == mastersGroup && (signer == "" || signer == ClientSigner) {
			return &InputError{
				Field:   "group",
				Problem: mastersGroup + " cannot be asked for from " + ClientSigner,
				hint:    "ask for a group of your own and let an admin bind it to the role cluster-admin",
			}
		}
	}
	return nil
}

// Equal reports whether both name the same user and the same groups.
func (s Subject) Equal(t Subject) bool {
	a, b := slices.Clone(s.Groups), slices.Clone(t.Groups)
	slices.Sort(a)
	slices.Sort(b)
	return s.User == t.User && slices.Equal(a, b)
}

// validateName refuses what nobody can tell apart, or type, in an RBAC rule.
func validateName(field, v string) error {
	switch {
	case v == "":
		return &InputError{Field: field, Problem: "is empty"}
	case !utf8.ValidString(v):
		return &InputError{Field: field, Problem: "is not valid UTF-8"}
	case utf8.RuneCountInString(v) > MaxName:
		return &InputError{Field: field, Problem: fmt.Sprintf("%.20q… has more than %d characters", v, MaxName)}
	case strings.TrimSpace(v) != v:
		return &InputError{Field: field, Problem: fmt.Sprintf("%q begins or ends with a space", v)}
	case strings.ContainsFunc(v, invisible):
		return &InputError{Field: field, Problem: fmt.Sprintf("%+q has a control character", v)}
	}
	return nil
}

// invisible tells control characters and the format characters (category Cf)
// that reorder or hide text.
func invisible(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
