package enroll

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	apiserver "github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// ErrSeveralCertificates: the token has more than one certificate to sign in with.
var ErrSeveralCertificates = errors.New("the token has several certificates to sign in with")

// Adoptable is a certificate on a token with which a client may sign in.
type Adoptable struct {
	Slot hsm.Slot
	// Certificate has the chain, as far as that is known.
	Certificate *csr.Certificate
	// Problem says in words why the certificate does not sign in ("it expired on …"), "" if it does as far as it shows.
	Problem string
}

// Unfit says which certificate does not sign in, and why.
func (a Adoptable) Unfit() string {
	return fmt.Sprintf("the certificate of %q in %s: %s", a.Certificate.Subject().User, place(a.Slot), a.Problem)
}

// Adoptables are the certificates of a token that are for client authentication, and are valid now;
// unfit are the others, but for those of authorities. more are certificates that may belong to their chains.
func Adoptables(slots []hsm.Slot, more []*x509.Certificate) (fit, unfit []Adoptable) {
	others := issuers(slots, more)
	for _, s := range slots {
		if s.Certificate == nil || s.Certificate.IsCA {
			continue
		}
		a := Adoptable{Slot: s, Certificate: csr.WithChain(s.Certificate, others)}
		problem := a.Certificate.Check(nil, true, time.Time{})
		if s.Key != nil && !s.CertificateMatches() {
			problem = &csr.CertificateError{Problem: "it is for another key than the one in the slot"}
		}
		if problem == nil {
			fit = append(fit, a)
			continue
		}
		a.Problem = problem.Error()
		var wrong *csr.CertificateError
		if errors.As(problem, &wrong) {
			a.Problem = wrong.Problem
		}
		unfit = append(unfit, a)
	}
	return fit, unfit
}

// ofKey are those of the key that u names, all if it names none.
func ofKey(u hsm.URI, all []Adoptable) []Adoptable {
	if u.Scheme == "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(a Adoptable) bool { return !u.MatchSlot(a.Slot) })
}

// issuers are the certificates on a token, and more, that may belong to the chain of one on it.
func issuers(slots []hsm.Slot, more []*x509.Certificate) []*x509.Certificate {
	all := more
	for _, s := range slots {
		if s.Certificate != nil {
			all = append(all[:len(all):len(all)], s.Certificate)
		}
	}
	return all
}

// place names a slot for people.
func place(s hsm.Slot) string {
	if s.URI.Slot != "" {
		return "slot " + s.URI.Slot
	}
	return fmt.Sprintf("%q", s.Label)
}

// chainIn reads the certificates of the file that o names for the chain.
func chainIn(o enrolling.Options) ([]*x509.Certificate, error) {
	if o.ChainFile == "" {
		return nil, nil
	}
	b, err := os.ReadFile(o.ChainFile)
	if err != nil {
		return nil, hint.With(fmt.Errorf("the chain: %w", err), "name a readable file: --chain FILE")
	}
	c, err := csr.ParseCertificate(b)
	if err != nil {
		return nil, hint.With(fmt.Errorf("the chain: %s: %w", o.ChainFile, err), "the file holds certificates in PEM")
	}
	return append(c.Chain, c.Leaf), nil
}

// knownIssuers are the certificates of the file that o names for the chain, and of the chain that an earlier run has
// recorded.
func knownIssuers(o enrolling.Options, recorded []byte) ([]*x509.Certificate, error) {
	all, err := chainIn(o)
	if old, parsing := csr.ParseCertificate(recorded); parsing == nil {
		all = append(all, old.Chain...)
	}
	return all, err
}

// takeAdoptable makes o the enrollment of the key and the user of the certificate.
func takeAdoptable(o *enrolling.Options, a Adoptable) error {
	who := a.Certificate.Subject()
	if o.User != "" && o.User != who.User {
		return hint.With(fmt.Errorf("the certificate on the token is for %q, not %q", who.User, o.User),
			"leave --user out; the certificate says who it is for")
	}
	o.Key, o.User, o.Groups = a.Slot.URI, who.User, who.Groups
	return nil
}

// noneAdoptable is the error for a token, or the key on it that is named, without a certificate that can be adopted.
func noneAdoptable(key hsm.URI, unfit []Adoptable) error {
	what := "token"
	if key.Scheme != "" {
		what = "key"
	}
	err := fmt.Errorf("the %s has no certificate to sign in with: %w", what, hsm.ErrNoCertificate)
	var problems []string
	for _, a := range ofKey(key, unfit) {
		problems = append(problems, a.Unfit())
	}
	if len(problems) > 0 {
		return hint.With(err, strings.Join(problems, "; ")+"; without --use-certificate, a new one is requested")
	}
	return hint.With(
		err,
		"`kubehsm key list` shows what is on the token; without --use-certificate, a certificate is requested",
	)
}

// severalAdoptable is the error for a choice that is a person's.
func severalAdoptable(all []Adoptable) error {
	names := make([]string, len(all))
	for i, a := range all {
		leaf := a.Certificate.Leaf
		names[i] = fmt.Sprintf("--key %s (%s, issued by %s, until %s)", shell.Quote(a.Slot.URI.String()),
			a.Certificate.Subject().User, leaf.Issuer.String(), expiry.Day(leaf.NotAfter))
	}
	return hint.With(ErrSeveralCertificates, "choose one by its key: --use-certificate "+strings.Join(names, ", or "))
}

// accepts says which client certificates the cluster accepts that o's context leads to, nil if it does not tell.
func accepts(ctx context.Context, e *env.Env, to apiserver.Cluster, o enrolling.Options) *csr.Accepted {
	by := cluster.AcceptedBy(ctx, to)
	if by != nil {
		by.Roots = readableRoots(ctx, e, o)
	}
	return by
}

// readableRoots are the authorities of client certificates that the cluster publishes, nil where the credential of o's
// context may not read them. Nobody is asked for a PIN.
func readableRoots(ctx context.Context, e *env.Env, o enrolling.Options) *x509.CertPool {
	if o.Join != nil {
		return nil
	}
	client, err := (cluster.Access{Env: e.Quiet()}).Client(ctx, o.Context)
	if err != nil {
		return nil // the handshake tells names at least
	}
	return client.ControlPlane().AcceptedRoots(ctx)
}

// untrusted says what to do about err, which says that the API server does not accept a certificate.
func untrusted(err error) error {
	return hint.With(err, "ask whoever runs the cluster whether its API server accepts that issuer (--client-ca-file); "+
		"--chain FILE adds missing intermediate certificates")
}

// accepted are the certificates that the API server is not certain to turn down.
func accepted(by *csr.Accepted, all []Adoptable) []Adoptable {
	if by == nil {
		return all
	}
	var some []Adoptable
	for _, a := range all {
		if by.Check(a.Certificate) == nil {
			some = append(some, a)
		}
	}
	return some
}

// keepsApart says why the certificate of a key that is there is kept in the state folder alone, "" if it is written to
// the token, as far as that is known before.
func keepsApart(ctx context.Context, t hsm.Token, info hsm.TokenInfo, o enrolling.Options) (why string, err error) {
	switch {
	case o.Adopt:
		return "the token stays as it is", nil
	case !info.Can.Store:
		return "the token cannot be written to", nil
	case !o.Key.Kind().HasSlots():
		return "", nil
	}
	d, err := token.ReadDetails(ctx, t)
	if err != nil || d == nil || d.ManagementKey.Default || d.ManagementKey.Protected {
		return "", err
	}
	return "writing it to the token would take the management key", nil
}
