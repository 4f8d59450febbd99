package host

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// locks ends what stands on a PIN, when it is asked to and when the time has come.
type locks struct {
	window   home.Unlock
	epoch    *epoch
	targets  *targets
	tokens   *token.Holders
	sessions *bridge.Sessions
	answers  *consents.Answers
	records  *auditing.Records
	notify   *desktop.Notifier
	log      *slog.Logger
}

// all ends everything that stands on a PIN: work in progress, sessions,
// connections and tunnels with their TLS tickets, and the tokens' logins. It returns
// the tokens whose workers did not answer and were ended.
func (l *locks) all() (ended []hsm.URI, err error) {
	var gone []*target
	var holders []*token.Held
	l.epoch.next(func() { gone, holders = l.targets.forget(nil), l.tokens.List() })

	l.sessions.Drop("")
	l.answers.Forget()
	for _, t := range gone {
		t.up.CloseFor("it was locked")
	}
	errs := make([]error, len(holders))
	var wg sync.WaitGroup
	for i, h := range holders { // a token that hangs leaves no other unlocked meanwhile
		wg.Go(func() { errs[i] = h.Lock() })
	}
	wg.Wait()
	for i, err := range errs {
		if errors.Is(err, worker.ErrEnded) {
			ended, errs[i] = append(ended, auditing.Public(holders[i].URI())), nil
		}
	}
	l.log.Info("locked", "enrollments", len(gone), "tokens", len(holders), "ended", len(ended))
	return ended, errors.Join(errs...)
}

// Reasons of [locks.token], as they are on record.
const (
	lockRemoved = "removed"
	lockPolicy  = "policy"
	lockIdle    = "idle"
	lockLongest = "longest-time"
)

// whyLocked words the reasons of [locks.token].
func whyLocked(reason string) string {
	switch reason {
	case lockRemoved:
		return "the token was removed"
	case lockPolicy:
		return "a consent policy was lowered, so its token was locked"
	case lockIdle:
		return "the token was not used for a while, so it was locked"
	}
	return "the token was unlocked for the longest time, so it was locked"
}

// token is [locks.all] for what stands on one token.
func (l *locks) token(h *token.Held, why string) {
	for _, t := range l.targets.forget(h) {
		l.sessions.Drop(t.e.Name)
		t.up.CloseFor(whyLocked(why))
		if why == lockRemoved {
			l.notify.Say("The token was removed: " + t.e.Name + " is locked.")
		}
	}
	r := audit.Record{Event: audit.Lock, Reason: why, Token: auditing.Public(h.URI())}
	if err := h.Lock(); err != nil { // the token's connections have gone all the same
		l.log.Error("lock", "token", h.URI().String(), "error", err)
		r.Outcome, r.Error = auditing.Outcome(err)
	}
	l.log.Info("locked", "token", h.URI().String(), "why", why)
	l.records.Write(r)
}

// sweep ends the unlock windows whose time is over, and returns when a token was
// last used by a request.
func (l *locks) sweep(now time.Time) (latest time.Time) {
	for h, used := range l.uses() {
		if used.After(latest) {
			latest = used
		}
		since, signed, ok := h.Window(now)
		switch {
		case !ok:
			l.letGo(h, now)
		case elapsed(since, now) >= l.window.Max:
			l.token(h, lockLongest)
		case min(elapsed(since, now), elapsed(signed, now), elapsed(used, now)) >= l.window.Idle:
			l.token(h, lockIdle)
		}
	}
	return latest
}

// unneededFor is how long a token stays open that nothing stands on: after a PIN
// prompt that was cancelled, say.
const unneededFor = 2 * time.Minute

// letGo ends the hold of a token that is locked and that nothing stands on.
func (l *locks) letGo(h *token.Held, now time.Time) {
	if since, ok := h.Idle(); !ok || elapsed(since, now) < unneededFor || l.targets.isReady(h) {
		return
	}
	if err := h.Lock(); err != nil {
		l.log.Warn("let go", "token", h.URI().String(), "error", err)
	}
}

// uses returns each token's last use by a request.
func (l *locks) uses() map[*token.Held]time.Time {
	all := l.targets.uses()
	for _, h := range l.tokens.List() {
		if _, used := all[h]; !used {
			all[h] = time.Time{}
		}
	}
	return all
}

// unlocked tells whether any token is.
func (l *locks) unlocked() bool {
	return slices.ContainsFunc(l.tokens.List(), (*token.Held).Unlocked)
}

// status describes the tokens.
func (l *locks) status(now time.Time) []message.TokenStatus {
	all := []message.TokenStatus{}
	for h, used := range l.uses() {
		st := message.TokenStatus{URI: h.URI()}
		since, signed, ok := h.Window(now)
		if ok {
			for _, t := range []time.Time{since, signed} {
				if t.After(used) {
					used = t
				}
			}
			st.Unlocked, st.Since, st.Until = h.Unlocked(), since, used.Add(l.window.Idle)
			if end := since.Add(l.window.Max); end.Before(st.Until) {
				st.Until = end
			}
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(x, y message.TokenStatus) int { return cmp.Compare(x.URI.String(), y.URI.String()) })
	return all
}
