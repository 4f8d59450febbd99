package host

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/away"
	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// locks ends what stands on a PIN, when it is asked to and when the time has come.
type locks struct {
	window   settings.Unlock
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
// connections and tunnels with their TLS tickets, and the tokens' logins. why is a reason
// of [message.WhyLocked], or "". show, which may be nil, shows which libraries are awaited. It
// returns the tokens whose workers did not answer and were ended.
func (l *locks) all(why string, show func(ask.Wait) (done func())) (ended []hsm.URI, err error) {
	var gone []*target
	var holders []*token.Held
	l.epoch.next(func() { gone, holders = l.targets.forget(nil), l.tokens.List() })

	l.sessions.Lock("")
	l.answers.Forget()
	for _, t := range gone {
		t.close(closedSince(why))
	}
	errs := make([]error, len(holders))
	var wg sync.WaitGroup
	for i, h := range holders { // a token that hangs leaves no other unlocked meanwhile
		wg.Go(func() {
			if show != nil {
				defer worker.AwaitLibrary(h.URI(), func(library string) func() {
					return show(ask.Wait{For: ask.ForLibrary, Token: library})
				})()
			}
			errs[i] = h.Lock(why)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if errors.Is(err, worker.ErrEnded) {
			ended, errs[i] = append(ended, auditing.Public(holders[i].URI())), nil
		}
	}
	l.log.Info("locked", "why", why, "enrollments", len(gone), "tokens", len(holders), "ended", len(ended))
	return ended, errors.Join(errs...)
}

// away is [locks.all] when the person has left the computer. It is on record if there was
// anything to end.
func (l *locks) away(e away.Event) {
	why := string(e)
	had := l.targets.any() || slices.ContainsFunc(l.tokens.List(), (*token.Held).Open)
	ended, err := l.all(why, nil)
	if err != nil {
		l.log.Error("lock", "why", why, "error", err)
	}
	for _, u := range ended {
		l.log.Warn("the token's worker did not answer and was ended", "token", u.String())
	}
	if !had && err == nil {
		return
	}
	r := audit.Record{Event: audit.Lock, Reason: why}
	if err != nil {
		r.Outcome, r.Error = auditing.Outcome(err)
	}
	l.records.Write(r)
}

// told is what a person is told at a prompt about a token: that it was locked because of
// their leaving or because its server was lost, and which records were changed.
func told(h *token.Held, versions *auditing.Versions) (sentences string, seen func()) {
	sentences, seen = versions.Notice(h.URI())
	switch why, _ := h.Locked(); why {
	case string(away.Suspend), string(away.ScreenLock), message.LockDisconnected:
		sentences = strings.TrimSpace("The token was locked: " + message.WhyLocked(why) + ". " + sentences)
	}
	return sentences, seen
}

// closedSince is why a connection ends when its token is locked for that reason.
func closedSince(why string) error {
	if why == message.LockRemoved {
		return hsm.ErrRemoved
	}
	if words := message.WhyLocked(why); words != "" {
		return errors.New(words + ", so it was locked")
	}
	return errors.New("it was locked")
}

// token is [locks.all] for what stands on one token.
func (l *locks) token(h *token.Held, why string) {
	for _, t := range l.targets.forget(h) {
		l.sessions.Lock(t.e.Name)
		t.close(closedSince(why))
		switch why {
		case message.LockRemoved:
			l.notify.Say("The token was removed: " + t.e.Name + " is locked.")
		case message.LockDisconnected:
			l.notify.Say("The connection to the token's server was lost: " + t.e.Name + " is locked.")
		}
	}
	l.answers.Forget()
	r := audit.Record{Event: audit.Lock, Reason: why, Token: auditing.Public(h.URI())}
	if err := h.Lock(why); err != nil { // the token's connections have gone all the same
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
			l.token(h, message.LockLongest)
		case min(elapsed(since, now), elapsed(signed, now), elapsed(used, now)) >= l.window.Idle:
			l.token(h, message.LockIdle)
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
	if err := h.Lock(""); err != nil {
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

// status describes the tokens; recent is as in [token.Held.State].
func (l *locks) status(recent bool) []message.TokenStatus {
	uses := l.uses()
	found := make(chan message.TokenStatus)
	for h, used := range uses { // all at once, as each may take a while
		go func() { found <- l.statusOf(h, used, h.State(recent)) }()
	}
	all := make([]message.TokenStatus, 0, len(uses))
	for range uses {
		all = append(all, <-found)
	}
	slices.SortFunc(all, func(x, y message.TokenStatus) int { return cmp.Compare(x.URI.String(), y.URI.String()) })
	return all
}

// statusOf describes a token that was found in a state, and which a request used last at the
// time used.
func (l *locks) statusOf(h *token.Held, used time.Time, state token.State) message.TokenStatus {
	st := message.TokenStatus{URI: h.URI(), Unlocked: state.Unlocked, Asked: h.Questions().Open()}
	if state.Problem != nil {
		st.Problem = state.Problem.Error()
	}
	if state.Open {
		for _, t := range []time.Time{state.Since, state.Used} {
			if t.After(used) {
				used = t
			}
		}
		st.Since, st.Until = state.Since, used.Add(l.window.Idle)
		if end := state.Since.Add(l.window.Max); end.Before(st.Until) {
			st.Until = end
		}
	}
	if !st.Unlocked {
		st.LockedBy, st.LockedAt = h.Locked()
	}
	return st
}
