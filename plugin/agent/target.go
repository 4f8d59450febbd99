package agent

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// target is an enrolment in use: as it was read, and the way to its server.
type target struct {
	e       enrollment.Enrollment
	chain   []*x509.Certificate
	policy  consent.Policy          // the strictest policy of all enrolments of the key
	others  []enrollment.Enrollment // other enrolments of the key
	version atomic.Pointer[string]
	holder  *holder
	up      *bridge.Upstream
	ready   atomic.Bool // the API server has taken our certificate

	useMu sync.Mutex
	seen  time.Time // the upstream's last use as it was seen last
	used  time.Time // when it was seen to have changed, by both clocks
}

// lastUse is when a request was last seen to use the upstream.
func (t *target) lastUse() time.Time {
	t.useMu.Lock()
	defer t.useMu.Unlock()
	if u := t.up.LastUsed(); !u.Equal(t.seen) {
		t.seen, t.used = u, time.Now()
	}
	return t.used
}

// target returns the enrolment of that name as the store has it now. What is
// in memory is good as long as the files are the same ones.
func (a *agent) target(name string) (*target, error) {
	a.mu.RLock()
	t := a.targets[name]
	a.mu.RUnlock()
	if t != nil && a.store.Version(t.e, t.others...) == *t.version.Load() {
		return t, nil
	}
	fresh, err := a.load(name)
	if err != nil {
		a.replace(name, t, nil) // nothing is served that is no longer enrolled
		return nil, err
	}
	if t != nil && t.same(fresh) { // another enrolment has changed
		t.version.Store(fresh.version.Load())
		fresh.up.Close()
		return t, nil
	}
	a.mu.RLock()
	if a.targets[name] == nil { // a policy was lowered, which has locked the token
		t = nil
	}
	a.mu.RUnlock()
	return a.replace(name, t, fresh), nil
}

// same tells whether two targets are the same but for their versions.
func (t *target) same(o *target) bool {
	return reflect.DeepEqual(t.e, o.e) && reflect.DeepEqual(t.policy, o.policy) && reflect.DeepEqual(t.others, o.others) &&
		slices.EqualFunc(t.chain, o.chain, (*x509.Certificate).Equal)
}

func (a *agent) load(name string) (*target, error) {
	e, err := a.store.Load(name)
	if err != nil {
		return nil, err
	}
	before := a.store.Version(e)
	policy, others := a.policies.of(e)
	version := a.store.Version(e, others...) // before the chain is read: a later write shows
	if again, err := a.store.Load(name); err != nil || !reflect.DeepEqual(again, e) || !strings.HasPrefix(version, before) {
		version = "" // the enrolment was read before this version
	}
	chain, err := a.store.Certificate(e)
	if err != nil {
		return nil, err
	}
	t := &target{e: e, chain: chain, policy: policy, others: others, holder: a.holder(e.Key), seen: time.Unix(0, 0)}
	t.version.Store(&version)
	t.up, err = bridge.NewUpstream(bridge.UpstreamOptions{Enrollment: e, Policy: policy, Chain: chain, Log: a.log, Handshake: a.o.handshake,
		Signer: func(ctx context.Context) (crypto.Signer, error) {
			p := a.prompterFor(ctx, e.Name)
			s, err := t.holder.signer(ctx, e.Key, chain[0].PublicKey, p)
			settled(p)
			if err != nil {
				a.records.signature(ctx, e, err)
				if prompterOf(ctx) == nil && errors.Is(err, hsm.ErrNoTerminal) {
					a.notify.Say("The connection to " + e.Name + " needs the token's PIN: run your command again, or kubehsm unlock.")
				}
				return nil, err
			}
			return recordedSigner{s, func(err error) {
				settled(p)
				a.records.signature(ctx, e, err)
			}}, nil
		}})
	return t, err
}

// replace puts fresh in old's place, if old is still there. A renewed certificate
// leaves running streams alone; any other change cuts them, as they lead to a
// server, or come from a key, that the user has since changed.
func (a *agent) replace(name string, old, fresh *target) *target {
	a.mu.Lock()
	current := a.targets[name]
	if current != old { // somebody else was faster
		a.mu.Unlock()
		if fresh != nil {
			fresh.up.Close()
		}
		if current == nil {
			current = fresh
		}
		return current
	}
	delete(a.targets, name)
	if fresh != nil {
		a.targets[name] = fresh
	}
	if old != nil {
		a.count(old)
	}
	a.mu.Unlock()
	if old == nil {
		return fresh
	}
	if fresh != nil && reflect.DeepEqual(old.e, fresh.e) && reflect.DeepEqual(old.policy, fresh.policy) {
		old.up.Reset()
	} else {
		a.sessions.Drop(name)
		old.up.Close()
	}
	return fresh
}

// follow takes over what has changed in the store, also for clients that run on
// and do not ask: another policy, server or authority, or an enrolment that is
// gone.
func (a *agent) follow() {
	a.mu.RLock()
	names := slices.Collect(maps.Keys(a.targets))
	a.mu.RUnlock()
	for _, name := range names {
		if _, err := a.target(name); err != nil {
			a.log.Info("an enrolment in use has changed", "enrollment", name, "error", err)
		}
	}
}

// inDate says whether the certificate can be used now.
func (t *target) inDate(now time.Time) error {
	leaf := t.chain[0]
	name := t.e.Name
	switch {
	case now.After(leaf.NotAfter):
		err := fmt.Errorf("%s: %w: it expired on %s", name, ErrCertificateExpired, leaf.NotAfter.Local().Format(time.DateTime))
		if t.e.Context == "" {
			return hsm.Hintf(err, "ask the help desk for a ticket, and get a new one with `%s`", t.e.Anew())
		}
		return hsm.Hintf(err, "get a new one with `%s`", t.e.Anew())
	case now.Before(leaf.NotBefore):
		return hsm.WithHint(fmt.Errorf("%s: %w: it begins on %s", name, ErrCertificateExpired, leaf.NotBefore.Local().Format(time.DateTime)),
			"check this computer's clock")
	}
	return nil
}
