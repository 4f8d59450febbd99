// Package overview says at one look where a person stands: who kubectl is, whether the token
// is unlocked, which certificates end, and what to do next. It reads files and asks the
// running agent. It opens no token, starts nothing and asks nobody.
package overview

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
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
	// Lock is the state of the enrollment's token, "" without an enrollment; Until is when an
	// unlocked token is locked at the latest.
	Lock  Lock      `json:"lock,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Certificates are those of all enrollments, the one that ends first before the others.
	Certificates []enroll.Expiring `json:"certificates"`
	// Unfinished are the enrollments that were begun and not finished, the latest first.
	Unfinished []Unfinished `json:"unfinished,omitempty"`
	// Problems are what could not be read, or what the agent fails at.
	Problems []string `json:"problems,omitempty"`
	// Next is the command to type next, "" if nothing has to be done.
	Next string `json:"next,omitempty"`
}

// Unfinished is an enrollment that goes on with a command.
type Unfinished struct {
	Name string `json:"name"`
	// Waits is the first step that is not done.
	Waits  enrolling.Step `json:"waits"`
	Since  time.Time      `json:"since"`
	Resume string         `json:"resume"`
}

// patience bounds the wait for the agent, which may be busy with a slow token.
const patience = time.Second

// Of returns the status of e.
func Of(ctx context.Context, e *env.Env) (Status, error) {
	var s Status
	current, err := e.Rules().Get(ctx, "")
	switch {
	case errors.Is(err, kubeconfig.ErrNoContext): // no context yet, or one that is gone
	case err != nil:
		return s, err
	default:
		s.Context = current.Name
	}
	if s.Certificates, err = enroll.NewRenewer(e).Expiring(); err != nil {
		return s, err
	}
	for _, c := range s.Certificates {
		if c.Err != nil {
			s.Problems = append(s.Problems, c.Err.Error())
		}
	}
	begun, err := enrolling.NewStore(e).Unfinished(ctx)
	if err != nil {
		s.Problems = append(s.Problems, err.Error())
	}
	for _, j := range begun {
		u := Unfinished{Name: j.Options.Name, Since: j.Updated, Resume: j.Options.Resume()}
		for _, step := range j.Options.Steps() {
			if !j.Did(step) {
				u.Waits = step
				break
			}
		}
		s.Unfinished = append(s.Unfinished, u)
	}
	if current.User.Ours() {
		en, err := e.Enrollments().Load(current.User.Enrollment)
		if err != nil {
			s.Problems = append(s.Problems, err.Error())
		} else {
			s.sign(ctx, e, en)
		}
	}
	s.Next = s.next()
	return s, nil
}

// sign adds what is known of the enrollment that the current context signs in with.
func (s *Status) sign(ctx context.Context, e *env.Env, en enrollment.Enrollment) {
	s.Enrollment, s.User, s.Groups, s.Server = en.Name, en.User, en.Groups, en.Cluster.Server
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	agent, err := session.Agent{Env: e}.AgentStatus(ctx)
	switch {
	case errors.Is(err, client.ErrNotRunning):
		s.Lock = Locked
		return
	case err != nil:
		s.Lock, s.Problems = Unknown, append(s.Problems, "the agent: "+err.Error())
		return
	}
	for _, p := range []string{agent.BridgeError, agent.AuditError} {
		if p != "" {
			s.Problems = append(s.Problems, p)
		}
	}
	s.Lock = Locked
	i := slices.IndexFunc(agent.Tokens, func(t message.TokenStatus) bool { return same(t.URI, en.Key) })
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
func (s *Status) next() string {
	if len(s.Unfinished) > 0 {
		return s.Unfinished[0].Resume
	}
	for _, c := range s.Certificates {
		if c.Due && c.Err == nil {
			return "kubehsm certificate renew " + c.Name
		}
	}
	switch {
	case len(s.Certificates) == 0:
		return "kubehsm enroll"
	case len(s.Problems) > 0:
		return "kubehsm doctor"
	}
	return ""
}
