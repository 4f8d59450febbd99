package host

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/ask/queue"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// What a client is told.
var (
	errRefused      = errors.New("it was refused")
	errOtherProgram = errors.New("the process runs another program now than the question said")
	errTooMany      = hint.With(errors.New("too many requests wait for an answer already"), "answer or end those first")
	errNobody       = hint.With(errors.New("there is nobody to ask"),
		"run the command in the foreground of a terminal that no pager or other full-screen program holds, "+
			"or keep `kubehsm` open in another terminal, or set pinentry in kubehsm's config.yaml")
)

// questions asks people about requests.
type questions struct {
	targets    *targets
	answers    *consents.Answers
	queue      *queue.Queue
	responders *queue.Responders
	terminals  *terminals
	versions   *auditing.Versions
	epoch      *epoch
	life       *life
	records    *auditing.Records
	log        *slog.Logger

	mu   sync.Mutex
	open map[*message.ConsentStatus]struct{}
}

// consent asks a person about a request, unless an answer is in force.
func (s *questions) consent(ctx context.Context, q bridge.Question) error {
	of := consents.Scope{Enrollment: q.Enrollment, Client: q.Client, Conn: q.Conn, As: q.Request.As,
		Class: consents.ClassOf(q.Request)}
	if err, ok := s.answers.Recall(of, time.Now()); ok {
		s.queue.Covered(ctx, q.Client)
		return err
	}
	answered := ctx
	release, ok := s.answers.Hold(q.Client)
	if !ok {
		return errTooMany
	}
	defer func() {
		release()
		s.terminals.mayWrite(q.Client)
	}()
	ctx, cancel := s.epoch.untilLocked(ctx)
	defer cancel()
	leave, err := s.queue.About(ctx, q.Client)
	if err != nil {
		return err
	}
	defer leave()
	if err, ok := s.answers.Recall(of, time.Now()); ok { // another request was asked about meanwhile
		s.queue.Covered(answered, q.Client)
		return err
	}
	if !q.Client.Alive() {
		return ask.ErrGone
	}
	ctx, cancelAlive := whileAlive(ctx, q.Client)
	defer cancelAlive()
	program := consents.ProgramOf(q.Client)
	err = s.question(ctx, answered, q)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err == nil && !consents.SameProgram(program, consents.ProgramOf(q.Client)) {
		err = errOtherProgram
	}
	if err == nil || errors.Is(err, errRefused) || errors.Is(err, hsm.ErrCancelled) ||
		errors.Is(err, hsm.ErrTouchTimeout) || errors.Is(err, context.DeadlineExceeded) {
		s.answers.Remember(of, program, err, time.Now())
	}
	return err
}

// whileAlive ends ctx when the process does: over HTTP/1.1 a client that leaves
// while its request waits is not noticed otherwise.
func whileAlive(ctx context.Context, client process.ID) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if client.Known() {
		go func() {
			tick := time.NewTicker(500 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					if !client.Alive() {
						cancel(ask.ErrGone)
						return
					}
				}
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// question puts a request, which ends with answered, to the first person who can be
// asked, and records how that ended.
func (s *questions) question(ctx, answered context.Context, q bridge.Question) error {
	t := s.targets.current(q.Enrollment)
	if t == nil {
		return message.ErrLocked
	}
	s.life.working.Add(1)
	defer s.life.working.Add(-1)
	statement := consent.Statement{Time: time.Now(), Enrollment: q.Enrollment, Server: t.e.Cluster.Server,
		Request: q.Request, Query: q.Query,
		PID: q.Client.PID, Command: consent.CommandOf(q.Client.PID), Program: consent.ProgramOf(q.Client.PID)}
	var account []string
	if q.Body != nil {
		b, err := q.Body(ctx)
		if err != nil {
			return err
		}
		if account = b.Account; len(account) > 0 {
			statement.Body = &b.Body
		}
	}
	text, err := statement.Text()
	if err != nil {
		return err
	}
	fields := fieldsOf(statement, q, account, t.e.Host())
	purpose := hsm.Purpose{Cluster: q.Enrollment, Action: "allow “" + q.Request.String() + "”",
		Command: statement.Command, Fields: fields}
	r := audit.Record{Event: audit.Consent, Enrollment: q.Enrollment, Server: t.e.Host(), Key: t.key.KeyHash,
		Request: q.Request.String(), Statement: text,
		Client: &audit.Process{PID: q.Client.PID, Command: statement.Command}}
	defer s.show(message.ConsentStatus{Enrollment: q.Enrollment, Client: q.Client, Request: q.Request.String(),
		Since: time.Now(), Fields: fields})()
	err = errNobody
	for _, who := range s.responders.ForClient(ctx, q.Session) {
		// An attendant without the terminal may have pinentry.
		p := raw(who.Ask, q.Request.Terminal)
		here := who.Client == q.Session && !errors.Is(reach(ctx, p), hsm.ErrNoTerminal)
		var leave func(asked bool)
		if leave, err = s.queue.Ask(ctx, answered, q.Client, here); err != nil {
			return err
		}
		r.Signature, r.Reason, err = s.put(ctx, t, statement, text, who,
			token.Use{Client: q.Client, Purpose: purpose, Ask: p})
		asked := !errors.Is(err, hsm.ErrNoTerminal)
		leave(asked)
		if asked {
			break
		}
		s.log.Info("consent", "enrollment", q.Enrollment, "error", err)
		err = errNobody
	}
	r.Outcome, r.Error = auditing.Outcome(err)
	switch {
	case errors.Is(err, errNobody):
		r.Outcome, r.Reason, r.Error = audit.Refused, "nobody", ""
		s.records.Repeated(r)
		return err
	case errors.Is(err, errRefused):
		r.Outcome, r.Error = audit.Refused, ""
	}
	if unrecorded := s.records.Keep(r); err == nil && unrecorded != nil {
		err = hint.With(fmt.Errorf("the answer does not count: %w", unrecorded),
			"make room on the disk, or see to it that kubehsm can write its audit log, and answer again")
	}
	return err
}

// put asks one person, and has the key sign what a yes is for: whichever driver reaches it, the
// token then wants its PIN or touch if its policy says so. Where that prompt is sure to come and
// to be seen, it is the question; else the question comes first: nobody should touch a token that
// blinks for a reason they have not read.
func (s *questions) put(ctx context.Context, t *target, about consent.Statement, text string,
	w ask.Waiter, u token.Use) (signature []byte, how string, err error) {
	over := t.held.Questions().Tell(w) // the card may be busy: it serves one operation at a time
	slot, err := t.find(ctx)
	over()
	if err != nil {
		return nil, "", err
	}
	pin := slot.Key != nil && slot.Key.PIN == hsm.PINAlways
	touch := slot.Key != nil && slot.Key.Touch == hsm.TouchAlways
	shown := pin
	how = "answer"
	switch {
	case touch:
		how = "touch"
	case pin:
		how = "pin"
	}
	if touch && !pin {
		switch err := reach(ctx, u.Ask); {
		case err == nil:
			shown = true
		case !errors.Is(err, hsm.ErrUnsupported):
			return nil, how, err
		}
	}
	if !shown {
		question := "allow it?"
		if touch {
			question = "allow it, and touch the token then?"
		}
		detail := words(about, t)
		notice, _ := s.versions.Notice(t.held.URI()) // what somebody has typed does not prove that a person read it
		if notice != "" {
			detail = notice + "\n" + detail
		}
		yes, err := u.Ask.Confirm(ctx, hsm.ConfirmPrompt{Question: question, Detail: detail,
			Notice: notice, Fields: u.Purpose.Fields})
		if err != nil {
			return nil, how, err
		}
		if !yes {
			return nil, how, errRefused
		}
	}
	ctx, cancel := context.WithTimeout(ctx, touchTimeout)
	defer cancel()
	defer t.held.Questions().Tell(w)()
	u.Ask = ask.Typed(u.Ask)
	signer, err := t.held.Signer(ctx, u, t.key.Key, t.chain[0].PublicKey)
	if err != nil {
		return nil, how, err
	}
	if signature, err = consent.Sign(signer, text); err != nil {
		return nil, how, err
	}
	return signature, how, consent.Verify(crypto.PublicKey(t.chain[0].PublicKey), text, signature)
}

// show shows a question in the agent's status until the returned function is called.
func (s *questions) show(q message.ConsentStatus) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[&q] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, &q)
	}
}

// maxWhole bounds how many open questions are told of with all they say: a message has
// a bound, too.
const maxWhole = 32

// status lists the questions that wait for their answer.
func (s *questions) status() []message.ConsentStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]message.ConsentStatus, 0, len(s.open))
	for q := range s.open {
		c := *q
		if len(all) >= maxWhole {
			c.Fields = nil
		}
		all = append(all, c)
	}
	return all
}

// raw says with p's questions whether the client holds its terminal in raw mode.
func raw(p ask.Func, terminal bool) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		q.Raw = terminal
		return p(ctx, q)
	}
}

// reach tells whether a touch would be seen, see [ask.Question].
func reach(ctx context.Context, p ask.Func) error {
	_, err := p(ctx, ask.Question{Reach: true})
	return err
}

// words are the lines above the question for programs that know no fields.
func words(s consent.Statement, t *target) string {
	who := "A program"
	if s.Command != "" {
		who = s.Command
	}
	if s.PID != 0 {
		who += fmt.Sprintf(" (process %d)", s.PID)
	}
	return who + " wants to " + s.Request.String() + "\non " + s.Enrollment + " (" + t.e.Host() + ")."
}
