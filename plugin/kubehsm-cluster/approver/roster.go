package approver

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// claim writes on the roster what is about to be approved: that the token is to have a certificate more, and for a ticket
// that it is used, and whose the token is. The API server refuses that where the token is another meanwhile, so no two
// approvals are the last one that the token may have.
func (r *Requests) claim(ctx context.Context, obj *certificatesv1.CertificateSigningRequest, d judge.Decision) error {
	enrolls := d.Terms != nil && d.Statement != nil && d.Statement.Serial != ""
	if d.Token == nil && !enrolls {
		return r.sameToken(ctx, d)
	}
	asked, err := judge.Read(obj)
	if err != nil {
		return err
	}
	token := d.Token.DeepCopy()
	if enrolls {
		if token, err = r.enroll(ctx, d); err != nil {
			return fmt.Errorf("write the token %s on the roster: %w", d.Statement.Serial, err)
		}
	}
	s, now := &token.Status, time.Now()
	if slices.ContainsFunc(s.Others, func(c clusterapi.TokenCertificate) bool { return c.Request == obj.UID }) {
		return r.sameToken(ctx, d) // written before an approver was killed
	}
	if d.Statement != nil && s.Certificate == "" {
		describe(s, asked.SPKIHash, *d.Statement)
	}
	if enrolls {
		s.Tickets = slices.DeleteFunc(s.Tickets, func(u clusterapi.UsedTicket) bool {
			return now.Sub(u.Time.Time) > 2*ticket.MaxTTL
		})
		s.Tickets = append(s.Tickets, clusterapi.UsedTicket{ID: d.Ticket, Request: obj.UID, Time: metav1.NewTime(now)})
	}
	s.Others = slices.DeleteFunc(s.Others, func(c clusterapi.TokenCertificate) bool { return !c.NotAfter.After(now) })
	s.Others = append(s.Others, clusterapi.TokenCertificate{Key: asked.SPKIHash, Request: obj.UID,
		NotAfter: metav1.NewTime(now.Add(cmp.Or(asked.Lifetime(), unboundedLife)))})
	if err := r.Objects.Status().Update(ctx, token); err != nil {
		return fmt.Errorf("write the use of the token %s on the roster: %w", token.Name, err)
	}
	return nil
}

// unboundedLife stands for the life of a certificate that the signer chooses.
const unboundedLife = 365 * 24 * time.Hour

// enroll has the roster give the token to the user of the ticket that d approves by.
func (r *Requests) enroll(ctx context.Context, d judge.Decision) (*clusterapi.HardwareToken, error) {
	token := &clusterapi.HardwareToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterapi.Namespace, Name: d.Statement.Serial},
	}
	if d.Token != nil {
		token = d.Token.DeepCopy()
	}
	old := token.DeepCopy()
	token.Spec.State, token.Spec.Owner, token.Spec.Groups = clusterapi.Active, d.Terms.User, d.Terms.Groups
	r.mu.Lock()
	horizon := r.policy.Horizon.Duration
	r.mu.Unlock()
	if horizon > 0 && token.Spec.Horizon == nil {
		token.Spec.Horizon = &metav1.Time{Time: time.Now().Add(horizon).Truncate(time.Second)}
	}
	var err error
	switch {
	case d.Token == nil:
		err = r.Objects.Create(ctx, token)
	case !sameSpec(old.Spec, token.Spec):
		err = r.Objects.Update(ctx, token)
	}
	token.Status = old.Status // an answer to a write has no status yet
	return token, err
}

func sameSpec(a, b clusterapi.TokenSpec) bool {
	return a.Owner == b.Owner && slices.Equal(a.Groups, b.Groups) && a.State == b.State && a.Horizon.Equal(b.Horizon)
}

func describe(s *clusterapi.TokenStatus, key string, proven attest.Statement) {
	s.Key, s.Model, s.Firmware = key, proven.Model, proven.Firmware
	s.PIN, s.Touch = proven.PIN.String(), proven.Touch.String()
}

// issued writes on the roster until when the certificate of a request is good, beside those that its token
// has, and that the token is in use.
func (r *Requests) issued(ctx context.Context, name string) error {
	stub := &certificatesv1.CertificateSigningRequest{}
	if err := r.Cache.Get(ctx, types.NamespacedName{Name: name}, stub); err != nil {
		return client.IgnoreNotFound(err)
	}
	if is(stub, csr.Failed) {
		return r.failed(ctx, stub)
	}
	said := gistOf(stub)
	if said == nil {
		return nil // no certificate of ours
	}
	key, end := hex.EncodeToString(said.key[:]), time.Unix(said.end, 0)
	now := time.Now()
	issued := clusterapi.TokenCertificate{Certificate: hex.EncodeToString(said.certificate[:]), Key: key,
		NotAfter: metav1.NewTime(end)}
	token, err := r.facts(ctx).TokenWithKey(key)
	if err != nil || !end.After(now) || token != nil && slices.ContainsFunc(token.Status.Live(now),
		func(c clusterapi.TokenCertificate) bool { return c.Certificate == issued.Certificate }) {
		return err
	}
	var proven attest.Statement
	if token != nil {
		proven = attest.Statement{Model: token.Status.Model, Firmware: token.Status.Firmware} // the key was proven before
	}
	if token == nil || token.Status.Key != key {
		switch in, p, err := r.proven(ctx, stub); {
		case err == nil:
			token, proven = in, p
		case token == nil || !errors.Is(err, errUnproven):
			return err
		}
	}
	status := token.Status
	all := status.Granted(now)
	if i := slices.IndexFunc(all, func(c clusterapi.TokenCertificate) bool { return c.Certificate == "" && c.Key == key }); i >= 0 {
		all = slices.Delete(all, i, i+1) // its approval
	}
	all = append(all, issued)
	slices.SortStableFunc(all, func(a, b clusterapi.TokenCertificate) int { return b.NotAfter.Compare(a.NotAfter.Time) })
	i := slices.IndexFunc(all, func(c clusterapi.TokenCertificate) bool { return c.Certificate != "" })
	last := all[i]
	all = slices.Delete(all, i, i+1)
	status.Others = all[:min(len(all), clusterapi.MaxOthers)]
	if last.Certificate == issued.Certificate && status.Key != key {
		describe(&status, key, proven)
	}
	if token.Spec.State == clusterapi.HandedOut {
		token.Spec.State = clusterapi.Active
		if err := r.Objects.Update(ctx, token); err != nil {
			return fmt.Errorf("write the state of the token %s on the roster: %w", token.Name, err)
		}
	}
	token.Status = status
	token.Status.Certificate, token.Status.NotAfter = last.Certificate, &last.NotAfter
	if err := r.Objects.Status().Update(ctx, token); err != nil {
		return fmt.Errorf("write the certificate of the token %s on the roster: %w", token.Name, err)
	}
	return nil
}

// failed takes an approval off the roster that the signer has made no certificate of.
func (r *Requests) failed(ctx context.Context, stub *certificatesv1.CertificateSigningRequest) error {
	obj, err := r.read(ctx, stub)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	asked, err := judge.Read(obj)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnproven, err)
	}
	token, err := r.facts(ctx).TokenWithKey(asked.SPKIHash)
	if err != nil || token == nil {
		return err
	}
	n := len(token.Status.Others)
	token.Status.Others = slices.DeleteFunc(token.Status.Others, func(c clusterapi.TokenCertificate) bool { return c.Request == obj.UID })
	if len(token.Status.Others) == n {
		return nil
	}
	return r.Objects.Status().Update(ctx, token)
}

// errUnproven: a certificate was issued, and nothing proves that its key is in its owner's token.
var errUnproven = errors.New("its key is in no token of its owner on the roster")

// proven is the token on the roster that the key of a request is proven to be in, and what the attestation proves. The
// error is [errUnproven] unless the request is its owner's.
func (r *Requests) proven(ctx context.Context, stub *certificatesv1.CertificateSigningRequest) (
	*clusterapi.HardwareToken, attest.Statement, error) {
	none := attest.Statement{}
	obj, err := r.read(ctx, stub)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", errUnproven, err)
	}
	if err != nil {
		return nil, none, err
	}
	j, _, broken, err := r.byPolicy(ctx)
	if err != nil {
		return nil, none, err
	}
	if j == nil {
		return nil, none, fmt.Errorf("%w: %s", errUnproven, broken)
	}
	asked, err := judge.Read(obj)
	if err != nil {
		return nil, none, fmt.Errorf("%w: %w", errUnproven, err)
	}
	statement, err := j.Proven(asked)
	if err != nil {
		return nil, none, fmt.Errorf("%w: %w", errUnproven, err)
	}
	token, err := r.facts(ctx).Token(statement.Serial)
	if err != nil {
		return nil, none, err
	}
	if token == nil || asked.Subject.User != token.Spec.Owner {
		return nil, none, fmt.Errorf("%w: it is in the token %s", errUnproven, statement.Serial)
	}
	return token, statement, nil
}
