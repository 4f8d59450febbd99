// Package overview says at one look where a person stands: who kubectl is, whether the token
// is there and unlocked, which certificates end, and what to do next. It reads files, asks the
// running agent and, if told to, looks at the tokens. It changes nothing and asks nobody.
package overview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// Lock is whether a token can be used without a PIN.
type Lock string

// The states of a token at the agent.
const (
	Locked   Lock = "locked"
	Unlocked Lock = "unlocked"
	Absent   Lock = "absent"  // the token is not there
	Unknown  Lock = "unknown" // the agent, or the token, does not answer
)

// Status is where a person stands.
type Status struct {
	// Context is the current context of the kubeconfig, "" if there is none. Enrollment is
	// the enrollment that the context signs in with, "" if kubehsm does not sign it in.
	Context    string `json:"context,omitempty"`
	Enrollment string `json:"enrollment,omitempty"`
	// User and Groups are whom the enrollment's certificate stands for, Server is its cluster.
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Server string   `json:"server,omitempty"`
	// Keys are the enrollments of the context, each with a key that signs it in: the one whose key
	// signed in last, then the others. There are none without an enrollment.
	Keys []enrollment.Enrollment `json:"-"`
	// Lock is the state of the enrollment's token, "" without an enrollment; Until is when an
	// unlocked token is locked at the latest.
	Lock  Lock      `json:"lock,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Asked are the questions that wait for a person now, at whichever token; Requests are
	// those of programs that wait for a yes.
	Asked    []ask.Wait              `json:"asked,omitempty"`
	Requests []message.ConsentStatus `json:"requests,omitempty"`
	// Interfaces counts the open terminal UIs.
	Interfaces int `json:"interfaces,omitempty"`
	// Certificates are those of all enrollments, the one that ends first before the others.
	Certificates []enroll.Expiring `json:"certificates"`
	// Unfinished are the enrollments that were begun and not finished, the latest first.
	Unfinished []Unfinished `json:"unfinished,omitempty"`
	// Problems are what could not be read, or what the agent fails at.
	Problems []string `json:"problems,omitempty"`
	// unread is the one among them that the agent has with the token of the context, "" for none.
	unread string
	// Next is what to do next, in JSON its command; the zero Step if nothing has to be done.
	Next Step `json:"next,omitzero"`
}

// Unfinished is an enrollment, or a renewal of one, that goes on with a command.
type Unfinished struct {
	Name    string `json:"name"`
	Renewal bool   `json:"renewal,omitempty"`
	// Waits is the first step that is not done.
	Waits  enrolling.Step `json:"waits"`
	Since  time.Time      `json:"since"`
	Resume string         `json:"resume"`
}

// Deed is a kind of step.
type Deed string

// What may be the next step.
const (
	Enroll  Deed = "enroll"
	Resume  Deed = "resume"  // an enrollment that was begun
	Renew   Deed = "renew"   // a certificate that ends
	Reenter Deed = "reenter" // enroll anew, as the certificate has ended
	Examine Deed = "examine" // look what the problem is
)

// Step is what is to be done next.
type Step struct {
	Deed Deed
	// Name is the enrollment that it is about, "" for none.
	Name string
	// Command is the command to type.
	Command string
}

// MarshalText returns the command.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.Command), nil }

// patience bounds the wait for the agent, which may be busy with a slow token, and glance that
// of a shell's prompt.
const (
	patience = time.Second
	glance   = 100 * time.Millisecond
)

// Of returns the status of e at now. What cannot be read or asked is among its problems.
func Of(ctx context.Context, e *env.Env, now time.Time) Status {
	return of(ctx, e, now, session.Agent{Env: e}.AgentStatus, patience)
}

// Look is [Of] with what the tokens that can be reached tell, see [Status.Seen]. No token is asked
// for a PIN or a touch.
func Look(ctx context.Context, e *env.Env, now time.Time) Status {
	s := Of(ctx, e, now)
	if len(s.Keys) == 0 {
		return s
	}
	here, failed, err := token.Tokens{Env: e}.ListNow(ctx)
	if err != nil {
		s.problem(err)
		return s
	}
	return s.Seen(here, failed)
}

// Glance is [Of] for a shell's prompt, which must not wait: tokens are taken for what they
// said last.
func Glance(ctx context.Context, e *env.Env, now time.Time) Status {
	return of(ctx, e, now, func(ctx context.Context) (s message.Status, err error) {
		c, err := client.Dial(ctx, e.Dirs)
		if err != nil {
			return s, err
		}
		s, err = c.RecentStatus(ctx)
		return s, errors.Join(err, c.Close())
	}, glance)
}

func of(ctx context.Context, e *env.Env, now time.Time, agent func(context.Context) (message.Status, error),
	patience time.Duration) Status {
	var s Status
	s.context(ctx, e)
	s.files(ctx, e, now)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, err := agent(ctx)
	if errors.Is(err, client.ErrNotRunning) { // without an agent, nothing is unlocked and nobody is asked
		err = nil
	}
	s.hear(status, err)
	if len(s.Keys) > 0 {
		s.Lock = Unknown
		if err == nil {
			s.lock(status, s.Keys[0].Key)
		}
	}
	s.Next = s.next(now)
	return s
}

// Seen returns s with what the tokens that are here tell of those of the context: none is there, a
// PIN is blocked, or a key is gone. What failed says why a token may not be seen.
func (s Status) Seen(here []hsm.View, failed []hsm.Problem) Status {
	s.Problems = slices.Clone(s.Problems)
	known, found := slices.Clone(s.Problems), false
	for _, e := range s.Keys {
		i := slices.IndexFunc(here, func(v hsm.View) bool { return e.Key.Identity().MatchToken(v.Info) })
		if i < 0 {
			continue
		}
		found = true
		switch v := here[i]; {
		case v.Info.PIN.Blocked():
			s.Problems = append(s.Problems, fmt.Sprintf("the PIN of %s is blocked; %s", v.Info.Name(), v.Info.Unblock()))
		case v.Err == nil && token.IsGone(e.Key, e.KeyHash, v.Slots):
			s.problem(e.KeyGone())
			if s.Next.Deed != Resume && e.SpareOf == "" {
				s.Next = Step{Reenter, e.Name, e.Restart(hsm.URI{})}
			}
		}
	}
	if !found && len(s.Keys) > 0 {
		s.absent(failed)
	}
	if s.Next == (Step{}) && !slices.Equal(s.Problems, known) {
		s.Next = Step{Examine, "", "kubehsm doctor"}
	}
	return s
}

// absent notes that no token of the context is seen. A card that is in use is there, and of a token whose
// driver has not answered nobody knows yet.
func (s *Status) absent(failed []hsm.Problem) {
	first := s.Keys[0]
	i := slices.IndexFunc(failed, func(p hsm.Problem) bool { return token.Hides(p, first.Key) })
	switch {
	case i < 0:
		s.Lock = Absent
		s.Problems = slices.DeleteFunc(s.Problems, func(p string) bool { return p != "" && p == s.unread })
		place := first.Key.Place()
		s.problem(hint.With(fmt.Errorf("the token of %s, %s, is %s", first.Name, first.Key.TokenName(), place.Absent()),
			place.Back()))
	case !errors.Is(failed[i].Err, hsm.ErrPending) && !errors.Is(failed[i].Err, hsm.ErrBusy):
		s.Lock = Unknown
		s.problem(fmt.Errorf("the token of %s is not seen: %w", first.Name, failed[i].Err))
	}
}

// problem notes what went wrong, and how it is mended; nil is nothing.
func (s *Status) problem(err error) {
	if err == nil {
		return
	}
	words := err.Error()
	if mend := hint.Of(err); mend != "" {
		words += "; " + mend
	}
	s.Problems = append(s.Problems, words)
}

// context reads the current context and the enrollment that it signs in with.
func (s *Status) context(ctx context.Context, e *env.Env) {
	current, err := e.Rules().Get(ctx, "")
	if err != nil {
		if !errors.Is(err, kubeconfig.ErrNoContext) { // the context may be missing yet, or gone
			s.problem(err)
		}
		return
	}
	s.Context = current.Name
	if !current.User.Ours() {
		return
	}
	en, err := e.Enrollments().Load(current.User.Enrollment)
	if err != nil {
		s.problem(err)
		return
	}
	used := e.Enrollments().InUse(en)
	family, err := e.Enrollments().Family(en)
	s.problem(err)
	for _, member := range family {
		if member.Name != used.Name {
			s.Keys = append(s.Keys, member)
		}
	}
	s.Keys = append([]enrollment.Enrollment{used}, s.Keys...)
	en = en.By(used)
	s.Enrollment, s.User, s.Groups, s.Server = en.Name, en.User, en.Groups, en.Cluster.Server
}

// files reads when certificates end, and what was begun.
func (s *Status) files(ctx context.Context, e *env.Env, now time.Time) {
	all, err := enroll.NewRenewer(e).Expiring(now)
	s.Certificates = all
	s.problem(err)
	for _, c := range all {
		s.problem(c.Err)
	}
	begun, err := enrolling.NewStore(e).Unfinished(ctx)
	s.problem(err)
	for _, j := range begun {
		s.Unfinished = append(s.Unfinished, Unfinished{Name: j.Options.Name, Renewal: j.Options.Renewal != nil,
			Waits: j.Next(), Since: j.Updated, Resume: j.Options.Resume()})
	}
}

// hear takes in what the agent says of itself, or why it says nothing.
func (s *Status) hear(agent message.Status, err error) {
	if err != nil {
		s.problem(fmt.Errorf("the agent: %w", err))
		return
	}
	for _, p := range []string{agent.BridgeError, agent.AuditError} {
		if p != "" {
			s.Problems = append(s.Problems, p)
		}
	}
	for _, t := range agent.Tokens {
		s.Asked = append(s.Asked, t.Asked...)
	}
	s.Requests, s.Interfaces = agent.Consents, agent.Responders
}

// lock says whether the token of key is unlocked.
func (s *Status) lock(agent message.Status, key hsm.URI) {
	s.Lock = Locked
	i := slices.IndexFunc(agent.Tokens, func(t message.TokenStatus) bool { return same(t.URI, key) })
	if i < 0 {
		return
	}
	switch t := agent.Tokens[i]; {
	case t.Problem != "":
		s.Lock, s.Problems, s.unread = Unknown, append(s.Problems, t.Problem), t.Problem
	case t.Unlocked:
		s.Lock, s.Until = Unlocked, t.Until
	}
}

// same tells whether a token that the agent holds is that of a key.
func same(token, key hsm.URI) bool {
	return token.Scheme == key.Scheme && token.Serial == key.Serial && token.Token == key.Token
}

// next is what to do first.
func (s *Status) next(now time.Time) Step {
	if len(s.Unfinished) > 0 {
		first := s.Unfinished[0]
		if first.Renewal {
			return Step{Renew, first.Name, first.Resume}
		}
		return Step{Resume, first.Name, first.Resume}
	}
	for _, c := range s.Certificates {
		switch {
		case !c.Due || c.Err != nil:
		case c.NotAfter.After(now):
			return Step{Renew, c.Name, c.Renewal(now)}
		default:
			return Step{Reenter, c.Name, c.Renewal(now)}
		}
	}
	switch {
	case len(s.Problems) > 0:
		return Step{Examine, "", "kubehsm doctor"}
	case len(s.Certificates) == 0:
		return Step{Enroll, "", "kubehsm enroll"}
	}
	return Step{}
}
