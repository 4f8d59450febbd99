// Package overview says at one look where a person stands: who kubectl is, whether the token
// is unlocked, which certificates end, and what to do next. It reads files and asks the
// running agent. It opens no token, starts nothing and asks nobody.
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
)

// Lock is whether a token can be used without a PIN.
type Lock string

// The states of a token at the agent.
const (
	Locked   Lock = "locked"
	Unlocked Lock = "unlocked"
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
	// Key is the enrollment's key, the zero URI without an enrollment.
	Key hsm.URI `json:"-"`
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
	en := s.context(ctx, e)
	s.files(ctx, e, now)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, err := agent(ctx)
	if errors.Is(err, client.ErrNotRunning) { // without an agent, nothing is unlocked and nobody is asked
		err = nil
	}
	s.hear(status, err)
	if en != nil {
		s.Lock = Unknown
		if err == nil {
			s.lock(status, en.Key)
		}
	}
	s.Next = s.next(now)
	return s
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

// context reads the current context, and returns the enrollment that it signs in with, nil for
// none.
func (s *Status) context(ctx context.Context, e *env.Env) *enrollment.Enrollment {
	current, err := e.Rules().Get(ctx, "")
	if err != nil {
		if !errors.Is(err, kubeconfig.ErrNoContext) { // the context may be missing yet, or gone
			s.problem(err)
		}
		return nil
	}
	s.Context = current.Name
	if !current.User.Ours() {
		return nil
	}
	en, err := e.Enrollments().Load(current.User.Enrollment)
	if err != nil {
		s.problem(err)
		return nil
	}
	en = en.By(e.Enrollments().InUse(en))
	s.Enrollment, s.User, s.Groups, s.Server, s.Key = en.Name, en.User, en.Groups, en.Cluster.Server, en.Key
	return &en
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

// Seen returns s with what the tokens that are here tell of the enrollment's token: a PIN that is blocked.
func (s Status) Seen(here []hsm.View) Status {
	key := s.Key.Identity()
	i := slices.IndexFunc(here, func(v hsm.View) bool {
		return key.Scheme != "" && key.MatchToken(v.Info) && v.Info.PIN.Blocked()
	})
	if i < 0 {
		return s
	}
	s.Problems = append(slices.Clone(s.Problems),
		fmt.Sprintf("the PIN of %s is blocked; `kubehsm token pin unblock` sets a new one", here[i].Info.Name()))
	if s.Next == (Step{}) {
		s.Next = Step{Examine, "", "kubehsm doctor"}
	}
	return s
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
		s.Lock, s.Problems = Unknown, append(s.Problems, t.Problem)
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
