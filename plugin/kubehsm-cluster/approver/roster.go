package approver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// claim writes on the roster what a ticket is about to be used for: whose the token is, what
// its key is, and that the ticket is used. The API server refuses that where the token is
// another meanwhile; where there is nothing to write, the token is read.
func (r *Requests) claim(ctx context.Context, obj *certificatesv1.CertificateSigningRequest, d judge.Decision) error {
	if d.Statement == nil || d.Statement.Serial == "" || d.Terms == nil {
		return r.sameToken(ctx, d)
	}
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
	if err != nil {
		return fmt.Errorf("write the token %s on the roster: %w", token.Name, err)
	}
	info, err := csr.InspectRequest(obj.Spec.Request)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(old.Status.Tickets, func(u clusterapi.UsedTicket) bool { return u.ID == d.Ticket }) {
		return r.sameToken(ctx, d)
	}
	status := old.Status.DeepCopy()
	describe(status, info.SPKIHash, *d.Statement)
	status.Tickets = slices.DeleteFunc(status.Tickets, func(u clusterapi.UsedTicket) bool {
		return time.Since(u.Time.Time) > 2*ticket.MaxTTL
	})
	status.Tickets = append(status.Tickets, clusterapi.UsedTicket{ID: d.Ticket, Request: obj.UID, Time: metav1.Now()})
	token.Status = *status
	if err := r.Objects.Status().Update(ctx, token); err != nil {
		return fmt.Errorf("write the use of the token %s on the roster: %w", token.Name, err)
	}
	return nil
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
	said := gistOf(stub)
	if said.issued == nil {
		return nil // no certificate of ours
	}
	key, end := hex.EncodeToString(said.issued.key[:]), time.Unix(said.issued.end, 0)
	token, err := facts{ctx, r.Cache}.TokenWithKey(key)
	if serial := said.serial; err == nil && token == nil && serial != "" {
		token, err = facts{ctx, r.Cache}.Token(serial)
	}
	now := time.Now()
	issued := clusterapi.TokenCertificate{Certificate: hex.EncodeToString(said.issued.certificate[:]), Key: key,
		NotAfter: metav1.NewTime(end)}
	if err != nil || token == nil || !end.After(now) || slices.ContainsFunc(token.Status.Live(now),
		func(c clusterapi.TokenCertificate) bool { return c.Certificate == issued.Certificate }) {
		return err
	}
	status := token.Status
	proven := attest.Statement{Model: status.Model, Firmware: status.Firmware} // the key was proven before
	if status.Key != key {
		switch p, err := r.proven(ctx, stub, token); {
		case err == nil:
			proven = p
		case !status.Knows(key) || !errors.Is(err, errUnproven):
			return err
		}
	}
	live := append(status.Live(now), issued)
	slices.SortStableFunc(live, func(a, b clusterapi.TokenCertificate) int { return b.NotAfter.Compare(a.NotAfter.Time) })
	last := live[0]
	status.Others = live[1:min(len(live), 1+clusterapi.MaxOthers)]
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

// errUnproven: a certificate was issued, and nothing proves that its key is in its owner's token.
var errUnproven = errors.New("its key is in no token of its owner on the roster")

// proven is what the attestation in a request proves of its key; the error is [errUnproven] unless
// the key is in the token and the request is its owner's.
func (r *Requests) proven(ctx context.Context, stub *certificatesv1.CertificateSigningRequest,
	token *clusterapi.HardwareToken) (attest.Statement, error) {
	obj, err := r.read(ctx, stub)
	if err != nil {
		return attest.Statement{}, err
	}
	j, _, broken, err := r.byPolicy(ctx)
	if err != nil {
		return attest.Statement{}, err
	}
	if j == nil {
		return attest.Statement{}, fmt.Errorf("%w: %s", errUnproven, broken)
	}
	asked, err := judge.Read(obj)
	if err != nil {
		return attest.Statement{}, fmt.Errorf("%w: %w", errUnproven, err)
	}
	statement, err := j.Proven(asked)
	switch {
	case err != nil:
		return attest.Statement{}, fmt.Errorf("%w: %w", errUnproven, err)
	case asked.Subject.User != token.Spec.Owner, statement.Serial != token.Name:
		return attest.Statement{}, fmt.Errorf("%w: it is in the token %s", errUnproven, statement.Serial)
	}
	return statement, nil
}
