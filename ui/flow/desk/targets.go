package desk

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// Sought says which certificates are to be revoked. What is given together must all fit,
// except that each certificate of PEM is one.
type Sought struct {
	// PEM has certificates; authorities among them are passed over.
	PEM []byte
	// Fingerprint is the SHA-256 of one, as [revocation.ParseFingerprint] reads it.
	Fingerprint string
	// Serial is the serial number of one, in hexadecimal or decimal digits; Issuer is part
	// of its issuer's name.
	Serial, Issuer string
	// Token is the URI or serial number of a token.
	Token string
	// User is who they are for.
	User string
	// Until is when a certificate ends of which only the fingerprint is known; zero if
	// that is not known either.
	Until time.Time
}

// known is a certificate of which the cluster or this computer knows.
type known struct {
	Target
	leaf   *x509.Certificate // nil for one that is only on record
	tokens []string          // serial numbers of tokens that it may be on
}

var errNoneKnown = errors.New("no live certificate is known that fits")

// Targets finds the certificates that are sought. Those that the cluster has issued within
// the hour, and those that were approved or enrolled on this computer, are known by more
// than their fingerprint.
func (s Stopping) Targets(ctx context.Context, kubeContext string, w Sought) ([]Target, error) {
	if len(w.PEM) > 0 {
		return targetsIn(w.PEM)
	}
	hash, serial, numbers, err := w.read()
	if err != nil {
		return nil, err
	}
	all, err := s.known(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	var found []Target
	for _, k := range all {
		switch {
		case hash != "" && k.Certificate != hash, w.User != "" && k.User != w.User,
			serial != "" && !slices.Contains(k.tokens, serial),
			len(numbers) > 0 && (k.leaf == nil || !slices.Contains(numbers, k.leaf.SerialNumber.String())),
			w.Issuer != "" && (k.leaf == nil || !strings.Contains(k.leaf.Issuer.String(), w.Issuer)),
			k.Ended(time.Now()),
			slices.ContainsFunc(found, func(t Target) bool { return t.Certificate == k.Certificate }):
		default:
			found = append(found, k.Target)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case hash != "" && slices.ContainsFunc(all,
		func(k known) bool { return k.Certificate == hash && k.Ended(time.Now()) }):
		return nil, fmt.Errorf("the certificate %.16s… has ended: there is nothing to revoke", hash)
	case hash != "" && slices.ContainsFunc(all, func(k known) bool { return k.Certificate == hash }):
		return nil, hint.With(fmt.Errorf("the certificate %.16s… is known, but does not fit what else was given", hash),
			"name it by its fingerprint alone")
	case hash != "":
		return []Target{{Entry: revocation.Entry{Certificate: hash, User: w.User, NotAfter: w.Until}}}, nil
	}
	return nil, hint.With(errNoneKnown,
		"give the certificate's file, or its fingerprint: the audit log names it as "+revocation.CredentialID)
}

// Check says what is malformed in w; nil if nothing is.
func (w Sought) Check() error {
	_, _, _, err := w.read()
	return err
}

// read returns the fingerprint, the token's serial number and what the certificate's may be.
func (w Sought) read() (hash, serial string, numbers []string, err error) {
	if w.Fingerprint != "" {
		if hash, err = revocation.ParseFingerprint(w.Fingerprint); err != nil {
			return "", "", nil, hint.With(err,
				"the audit log names it as credential-id, `openssl x509 -noout -fingerprint -sha256` prints it")
		}
	}
	if serial = w.Token; strings.Contains(w.Token, ":") {
		u, err := hsm.ParseURI(w.Token)
		if err != nil {
			return "", "", nil, err
		}
		if serial = u.Serial; serial == "" {
			return "", "", nil, hint.With(fmt.Errorf("the URI %q has no serial number, so it could mean any token", w.Token),
				"give the token's serial number; `kubehsm token list` shows it")
		}
	}
	if numbers = revocation.SerialNumbers(w.Serial); w.Serial != "" && len(numbers) == 0 {
		return "", "", nil, fmt.Errorf("%q is not a serial number", w.Serial)
	}
	return hash, serial, numbers, nil
}

// targetsIn reads the certificates in PEM that are no authorities.
func targetsIn(data []byte) (all []Target, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the certificate cannot be read: %w", err)
		}
		if !c.IsCA {
			all = append(all, targetOf(c))
		}
	}
	if len(all) == 0 {
		return nil, hint.With(errors.New("there is no client certificate in it"),
			"give a file with PEM blocks of type CERTIFICATE")
	}
	return all, nil
}

func targetOf(c *x509.Certificate) Target {
	return Target{Entry: revocation.EntryOf(c), Groups: append([]string{}, c.Subject.Organization...)}
}

// known lists the certificates that the cluster and this computer know of.
func (s Stopping) known(ctx context.Context, kubeContext string) (all []known, err error) {
	at, err := s.access.Verified(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	client, err := s.access.Client(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	for obj, err := range client.List(ctx, csr.ListOptions{}) {
		if csr.IsForbidden(err) {
			break // only the records of this computer are left
		}
		if err != nil {
			return nil, err
		}
		if cert, err := csr.ParseCertificate(obj.Status.Certificate); err == nil {
			k := known{leaf: cert.Leaf, Target: targetOf(cert.Leaf)}
			k.Request = obj.Name
			all = append(all, k)
		}
	}
	c, err := openObjects(ctx, s.access, kubeContext)
	if err != nil {
		return nil, err
	}
	tokens, err := c.rostered(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, tokens...)
	store := s.env.Enrollments()
	mine, err := store.List()
	if err != nil {
		return nil, err
	}
	for _, e := range mine {
		chain, err := store.Certificate(e)
		if err != nil || e.Cluster.Server != at.Server || len(chain) == 0 {
			continue // the enrollment has none for this cluster
		}
		all = append(all, known{leaf: chain[0], tokens: []string{e.Key.Serial}, Target: targetOf(chain[0])})
	}
	return merged(all), nil
}

// rostered are the certificates of the tokens on the cluster's roster, none if there is no roster or the
// caller may not read it. Owner and groups of an entry may have changed since, so the groups are left out.
func (c *objects) rostered(ctx context.Context) (all []known, err error) {
	kind := object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
		"metadata": map[string]any{"namespace": clusterapi.Namespace}}
	err = c.list(ctx, kind, func(o object) {
		var t clusterapi.HardwareToken
		if o.into(&t) != nil {
			return // it has an unknown form
		}
		for _, c := range t.Status.Live(time.Now()) {
			all = append(all, known{tokens: []string{t.Name}, Target: Target{Token: t.Name,
				Entry: revocation.Entry{Certificate: c.Certificate, Key: c.Key, User: t.Spec.Owner, NotAfter: c.NotAfter.Time}}})
		}
	})
	if apierrors.IsNotFound(err) || isForbidden(err) {
		err = nil
	}
	return all, err
}

// merged gives each certificate the tokens that any of its sources knows, and all that is in the certificate
// itself if any has it: the roster has only the hash.
func merged(all []known) []known {
	first := map[string]int{}
	var out []known
	for _, k := range all {
		i, ok := first[k.Certificate]
		if !ok {
			first[k.Certificate] = len(out)
			out = append(out, k)
			continue
		}
		out[i].tokens = append(out[i].tokens, k.tokens...)
		if out[i].leaf == nil && k.leaf != nil {
			out[i].leaf, out[i].Target = k.leaf, k.Target
		}
	}
	return out
}
