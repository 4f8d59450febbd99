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
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/renewing"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// renewals have the certificates renewed of what is in use, where that takes nobody.
type renewals struct {
	renewer *renewing.Renewer
	targets *targets
	signIns *signIns
	epoch   *epoch
	records *auditing.Records
	notify  *desktop.Notifier
	work    sync.WaitGroup
}

// sweep begins what is due: for servers that have answered by a connection that is open, be it that of an
// earlier certificate, with keys that sign without a PIN or a touch.
func (s *renewals) sweep(ctx context.Context, now time.Time) {
	for _, t := range s.targets.list() {
		if !t.ready.Load() || t.up.Rejected() || !t.up.Live() && !s.targets.carries(t) {
			continue
		}
		done, ok := s.renewer.Begin(t.key, t.chain, now)
		if !ok {
			continue
		}
		s.work.Go(func() {
			defer done()
			ctx, cancel := s.epoch.untilLocked(ctx)
			defer cancel()
			s.renewer.Renew(ctx, s.way(t))
		})
	}
}

// way is how the certificate of t is renewed. Nobody is asked for anything.
func (s *renewals) way(t *target) renewing.Way {
	signing := func(of *target) upstream.Signing {
		return func(ctx context.Context) (crypto.Signer, error) {
			return s.signIns.unaskedKey(ctx, of, auditing.Requester{}, token.Use{})
		}
	}
	return renewing.Way{
		Key: t.key, Chain: t.chain,
		Client: func() (*csr.Client, error) {
			return csr.NewClient(&rest.Config{Host: t.e.Cluster.Server, Transport: t.up.Transport(signing(t)),
				UserAgent: "kubehsm"})
		},
		Signer: func(ctx context.Context) (crypto.Signer, error) {
			if err := t.asksNobody(ctx); err != nil {
				return nil, err
			}
			key, err := t.held.Signer(ctx, token.Use{Purpose: hsm.Purpose{Cluster: t.e.Name, Action: "renew the certificate"}},
				t.key.Key, t.chain[0].PublicKey)
			if err != nil {
				return nil, err
			}
			return recordedSigner{key, func(err error) { s.records.SignedRenewal(t.e.By(t.key), err) }}, nil
		},
		Swap: func(ctx context.Context, c *csr.Certificate) error {
			return s.targets.swap(ctx, t, append([]*x509.Certificate{c.Leaf}, c.Chain...), signing)
		},
	}
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
		st := message.RenewalStatus{Enrollment: t.key.Name, Failure: known.Failure, Failed: known.Failed}
		if q := known.Request; q != nil {
			st.Request, st.Made = q.Name, q.Made
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(x, y message.RenewalStatus) int { return cmp.Compare(x.Enrollment, y.Enrollment) })
	return all
}

// errChanged: the enrollment was changed while its certificate was renewed.
var errChanged = errors.New("the enrollment was changed meanwhile")

// swap signs in with another certificate for the key of t, stores it, and has new requests use it.
// What t carries goes on.
func (s *targets) swap(ctx context.Context, t *target, chain []*x509.Certificate,
	signing func(*target) upstream.Signing) error {
	fresh := &target{e: t.e, key: t.key, chain: chain, policy: t.policy, others: t.others}
	if err := s.way(fresh); err != nil {
		return err
	}
	if err := fresh.up.SignIn(ctx, signing(fresh)); err != nil {
		fresh.up.Close()
		return fmt.Errorf("sign in with the new certificate: %w", fresh.explain(err))
	}
	err := errChanged
	if s.version(t).stamps == t.version.Load().stamps {
		err = s.store.SaveCertificate(t.key, chain)
	}
	if err != nil {
		fresh.up.Close()
		return err
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
