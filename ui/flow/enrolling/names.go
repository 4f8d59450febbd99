package enrolling

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
)

// NameFor makes an enrollment's name from a context's, which may hold anything.
func NameFor(context string) string {
	const suffix, longest = "-hsm", 63
	base := Slug(context)
	if len(base) > longest-len(suffix) {
		base = strings.TrimRight(base[:longest-len(suffix)], "-.")
	}
	return strings.TrimPrefix(base+suffix, "-")
}

// SpareSuffix ends the names of spares' own records, and of the tickets for them.
const SpareSuffix = "-spare"

// Slug keeps of s what may stand in a name: lower-case letters, digits, dots
// and dashes, anything else becoming one dash.
func Slug(s string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(s) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			if gap {
				b.WriteByte('-')
			}
			b.WriteRune(r)
			gap = false
		} else {
			gap = true
		}
	}
	return strings.Trim(b.String(), "-.")
}

// Fill makes *to from, if it is the zero value.
func Fill[T comparable](to *T, from T) {
	var zero T
	if *to == zero {
		*to = from
	}
}

// AltNames are the subject alternative names to ask for, as typed.
type AltNames struct {
	DNS   []string `json:"dns,omitempty"`
	Email []string `json:"email,omitempty"`
	IP    []string `json:"ip,omitempty"`
	URI   []string `json:"uri,omitempty"`
}

// Into puts the names into a request's options.
func (a AltNames) Into(o *csr.RequestOptions) error {
	o.DNSNames, o.EmailAddresses = a.DNS, a.Email
	for _, s := range a.IP {
		ip := net.ParseIP(s)
		if ip == nil {
			return &csr.InputError{Field: "IP address", Problem: fmt.Sprintf("%q is none", s)}
		}
		o.IPAddresses = append(o.IPAddresses, ip)
	}
	for _, s := range a.URI {
		u, err := url.Parse(s)
		if err != nil || !u.IsAbs() {
			return &csr.InputError{Field: "URI", Problem: fmt.Sprintf("%q is not an absolute one", s)}
		}
		o.URIs = append(o.URIs, u)
	}
	return nil
}

// All are the names of every kind.
func (a AltNames) All() []string { return slices.Concat(a.DNS, a.Email, a.IP, a.URI) }

// nameTemplate fills the placeholders of names: {login} and {host} of this
// machine, {serial} and {token} of the token, {context} of the kubeconfig.
type nameTemplate struct {
	Token   hsm.TokenInfo
	Context string
}

// value is what stands for a placeholder.
func (t nameTemplate) value(placeholder string) (string, error) {
	switch placeholder {
	case "login":
		u, err := user.Current()
		if err != nil {
			return "", err
		}
		return u.Username, nil
	case "host":
		h, err := os.Hostname()
		short, _, _ := strings.Cut(h, ".")
		return short, err
	case "serial":
		return t.Token.Serial, nil
	case "token":
		return t.Token.Name(), nil
	case "context":
		return t.Context, nil
	}
	return "", fmt.Errorf("{%s} is none of {login}, {host}, {serial}, {token}, {context}", placeholder)
}

// fill replaces the placeholders in a name.
func (t nameTemplate) fill(field, s string) (string, error) {
	var out strings.Builder
	for rest := s; ; {
		before, after, open := strings.Cut(rest, "{")
		out.WriteString(before)
		if !open {
			return out.String(), nil
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return "", &csr.InputError{Field: field, Problem: fmt.Sprintf("%q: a { is not closed", s)}
		}
		v, err := t.value(name)
		if err == nil && v == "" {
			err = fmt.Errorf("{%s} is empty here", name)
		}
		if err != nil {
			return "", &csr.InputError{Field: field, Problem: fmt.Sprintf("%q: %v", s, err)}
		}
		out.WriteString(v)
		rest = tail
	}
}

// fillAll replaces the placeholders in a list of names, which stays as it is.
func (t nameTemplate) fillAll(field string, list []string) ([]string, error) {
	var out []string
	for _, s := range list {
		v, err := t.fill(field, s)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (t nameTemplate) fillNames(a AltNames) (out AltNames, err error) {
	for _, l := range []struct {
		field string
		from  []string
		to    *[]string
	}{{"DNS name", a.DNS, &out.DNS}, {"email address", a.Email, &out.Email}, {"IP address", a.IP, &out.IP},
		{"URI", a.URI, &out.URI}} {
		if *l.to, err = t.fillAll(l.field, l.from); err != nil {
			return AltNames{}, err
		}
	}
	return out, nil
}

// FillNames replaces the placeholders in the names that o asks for.
func (o *Options) FillNames(token hsm.TokenInfo) (err error) {
	t := nameTemplate{Token: token, Context: o.Context}
	if o.User, err = t.fill("user", o.User); err != nil {
		return err
	}
	if o.Groups, err = t.fillAll("group", o.Groups); err != nil {
		return err
	}
	o.AltNames, err = t.fillNames(o.AltNames)
	return err
}

// HasPlaceholders tells whether there are any: a token must be looked at to fill them.
func (o *Options) HasPlaceholders() bool {
	all := slices.Concat([]string{o.User}, o.Groups, o.AltNames.All())
	return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "{") })
}
