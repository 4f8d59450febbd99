package host

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/following"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/renewing"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/expiry"
)

// renewals have the certificates renewed of what is in use, where that takes nobody, and look whether
// clusters announce that they have moved.
type renewals struct {
	renewer  *renewing.Renewer
	follower *following.Follower
	targets  *targets
	signIns  *signIns
	epoch    *epoch
	records  *auditing.Records
	notify   *desktop.Notifier
	now      func() time.Time // the clock by which offers are due
	offered  time.Duration    // how long a sign-in waits for an answer to an offer
	work     sync.WaitGroup
}

// sweep begins what is due: for servers that have answered by a connection that is open, be it that of an
// earlier certificate, with keys that sign without a PIN or a touch.
func (s *renewals) sweep(ctx context.Context, now time.Time) {
	for _, t := range s.targets.list() {
		if !t.ready.Load() || t.past.Load() || t.up.Rejected() || !t.up.Live() && !s.targets.carries(t) {
			continue
		}
		if done, ok := s.renewer.Begin(t.key, t.chain, now); ok {
			s.begin(ctx, done, func(ctx context.Context) { s.renewer.Renew(ctx, s.way(t)) })
		}
		if !t.up.Live() { // nothing is opened only to look
			continue
		}
		if done, ok := s.follower.Begin(t.e, now); ok {
			s.begin(ctx, done, func(ctx context.Context) { s.follower.Look(ctx, t.e, t.up.Transport(s.signing(t))) })
		}
	}
}

// begin has work done until it ends, or a lock ends it.
func (s *renewals) begin(ctx context.Context, done func(), work func(context.Context)) {
	s.work.Go(func() {
		defer done()
		ctx, cancel := s.epoch.untilLocked(ctx)
		defer cancel()
		work(ctx)
	})
}

// signing is the key of a target, if it signs without anybody.
func (s *renewals) signing(of *target) upstream.Signing {
	return func(ctx context.Context) (crypto.Signer, error) {
		return s.signIns.unaskedKey(ctx, of, auditing.Requester{}, token.Use{})
	}
}

// way is how the certificate of t is renewed. Nobody is asked for anything.
func (s *renewals) way(t *target) renewing.Way {
	return s.wayBy(t, false, func(ctx context.Context) (crypto.Signer, error) {
		if err := t.asksNobody(ctx); err != nil {
			return nil, err
		}
		return s.requestKey(ctx, t, token.Use{Purpose: hsm.Purpose{Cluster: t.e.Name, Action: "renew the certificate"}})
	})
}

// wayBy is how the certificate of t is renewed by a request that signer signs. If waits is set and the key does not
// sign by itself, the new certificate is used from the next sign-in on.
func (s *renewals) wayBy(t *target, waits bool, signer upstream.Signing) renewing.Way {
	return renewing.Way{
		Key: t.key, Chain: t.chain,
		Client: func() (*csr.Client, error) {
			return csr.NewClient(&rest.Config{Host: t.e.Cluster.Server, Transport: t.up.Transport(s.signing(t)),
				UserAgent: "kubehsm"})
		},
		Signer: signer,
		Swap: func(ctx context.Context, c *csr.Certificate) error {
			fresh := &target{e: t.e, key: t.key, chain: append([]*x509.Certificate{c.Leaf}, c.Chain...), policy: t.policy,
				others: t.others}
			return s.targets.swap(ctx, t, fresh, s.signing(fresh), waits, func() error {
				if s.targets.version(t).stamps != t.version.Load().stamps {
					return enrollment.ErrChanged
				}
				return s.targets.store.SaveCertificate(t.key, fresh.chain)
			})
		},
	}
}

// requestKey is the key of t for a request, whose signature is put on record.
func (s *renewals) requestKey(ctx context.Context, t *target, u token.Use) (crypto.Signer, error) {
	key, err := t.held.Signer(ctx, u, t.key.Key, t.chain[0].PublicKey)
	if err != nil {
		return nil, err
	}
	return recordedSigner{key, func(err error) { s.records.SignedRenewal(t.e.By(t.key), err) }}, nil
}

// offerTimeout is the usual [renewals.offered].
const offerTimeout = 20 * time.Second

// offer has the certificate of t renewed if that is due and takes a further touch or PIN of the person who has
// just signed in by u. That person may decline, by doing nothing: t is signed in.
func (s *renewals) offer(ctx context.Context, t *target, u token.Use) {
	if t.past.Load() {
		return
	}
	now := s.now()
	done, ok := s.renewer.Begin(t.key, t.chain, now) // before the token is looked at, which takes time
	if !ok {
		return
	}
	if !errors.Is(t.asksNobody(ctx), hsm.ErrPINRequired) {
		done()
		return
	}
	if _, err := u.Ask(ctx, ask.Question{Reach: true}); errors.Is(err, hsm.ErrNoTerminal) {
		done() // a touch would not be seen
		return
	}
	until := expiry.Day(s.renewer.Until(t.key, t.chain, now))
	u.Purpose = hsm.Purpose{Action: fmt.Sprintf("renew the certificate of %s until %s, or wait %s to skip it for now",
		t.e.Name, until, span.Limit(s.offered))}
	way := s.wayBy(t, true, func(ctx context.Context) (crypto.Signer, error) { return s.requestKey(ctx, t, u) })
	asking, cancel := context.WithTimeout(ctx, s.offered)
	defer cancel()
	goOn := s.renewer.Ask(asking, way, now)
	if goOn == nil {
		done()
		return
	}
	s.begin(context.WithoutCancel(ctx), done, goOn)
}

// ended puts the end of an attempt on record, and tells the person of one that is not repeated today.
func (s *renewals) ended(e enrollment.Enrollment, err error, failed bool) {
	s.records.Renewal(e, err)
	if failed {
		s.notify.Say("The certificate of " + e.Name + " could not be renewed: run kubehsm doctor.")
	}
}

// status describes the renewals of what is in use that have not come to a good end.
func (s *renewals) status() (all []message.RenewalStatus) {
	for _, t := range s.targets.list() {
		known, err := s.renewer.Store.Renewals().Load(t.key)
		if err != nil || !renewing.Left(known) || known.Request == nil && known.Failure == "" {
			continue
		}
		st := message.RenewalStatus{Enrollment: t.key.Name, Failure: link.Short(known.Failure), Failed: known.Failed}
		if q := known.Request; q != nil {
			st.Request, st.Made = q.Name, q.Made
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(x, y message.RenewalStatus) int { return cmp.Compare(x.Enrollment, y.Enrollment) })
	return all
}

// announced puts on record that the cluster of an enrollment announces a change, and tells the person.
func (s *renewals) announced(e enrollment.Enrollment) {
	s.records.Follow(e)
	s.notify.Say("The cluster " + e.Name + " announces a new address or authority: run kubehsm kubeconfig refresh " +
		e.Name + ".")
}

// unfollowed describes the enrollments in use whose clusters announce what nobody has accepted yet.
func (s *renewals) unfollowed() (all []message.FollowStatus) {
	for _, t := range s.targets.list() {
		if problem := s.follower.Problem(t.e.Name); problem != "" {
			all = append(all, message.FollowStatus{Enrollment: t.e.Name, Problem: link.Short(problem)})
		}
	}
	slices.SortFunc(all, func(x, y message.FollowStatus) int { return cmp.Compare(x.Enrollment, y.Enrollment) })
	return all
}

// swap signs in as fresh, which is t with another certificate, has save store
// that, and has new requests use it. What t carries goes on. If sign would have to ask somebody and fresh can
// wait, it takes over when no connection of t is open any more.
func (s *targets) swap(ctx context.Context, t, fresh *target, sign upstream.Signing, waits bool,
	save func() error) error {
	if err := s.way(fresh); err != nil {
		return err
	}
	err := fresh.up.SignIn(ctx, sign)
	waits = waits && errors.Is(err, hsm.ErrPINRequired)
	switch {
	case waits:
		t.past.Store(true)
	case err != nil:
		fresh.up.Close()
		return fmt.Errorf("sign in again: %w", fresh.explain(err))
	}
	if err := save(); err != nil {
		t.past.Store(false)
		fresh.up.Close()
		return err
	}
	if waits {
		fresh.up.Close()
		return nil
	}
	fresh.version.Store(&version{}) // the next look compares with what is stored by then
	fresh.ready.Store(true)
	s.replace(t.e.Name, t, fresh)
	return nil
}

// carries tells whether a target before t carries anything.
func (s *targets) carries(t *target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[t.e.Name] != t {
		return false
	}
	t.before = t.before.carrying()
	return t.before != nil
}

// list returns what is in use.
func (s *targets) list() []*target {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.all))
}
