package host

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// records writes what the agent does to the audit log. The work goes on if that
// fails, and the agent's status says so.
type records struct {
	log     *slog.Logger
	agent   int                    // its process
	to      *audit.Log             // nil in tests that do not look at it
	path    string                 // of the audit log
	problem atomic.Pointer[string] // why the audit log cannot be written
}

func newRecords(to *audit.Log, path string, agent int, log *slog.Logger) *records {
	return &records{log: log, agent: agent, to: to, path: path}
}

// write writes a record.
func (s *records) write(r audit.Record) { s.put(r, (*audit.Log).Write) }

// repeated is write for what a program may try in a loop.
func (s *records) repeated(r audit.Record) { s.put(r, (*audit.Log).Repeated) }

func (s *records) put(r audit.Record, to func(*audit.Log, audit.Record) error) {
	if s.to == nil {
		return
	}
	r.Agent = s.agent
	s.note(to(s.to, r))
}

// recover writes what was only counted so far, and begins a new log where
// somebody has removed it.
func (s *records) recover() {
	if s.to == nil {
		return
	}
	lost, err := s.to.Recover()
	s.note(err)
	if lost {
		s.write(audit.Record{Event: audit.Lost})
	}
	s.note(s.to.Flush())
}

// note keeps an error of the audit log for the status.
func (s *records) note(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if old := s.problem.Swap(&text); old == nil || *old != text {
		s.log.Error("audit", "error", err)
	}
}

// policies reads the policies that are on record; there are none without a log.
func (s *records) policies(ctx context.Context) (map[string]*audit.PolicyState, error) {
	if s.to == nil {
		return nil, nil
	}
	known, err := audit.Policies(ctx, s.path)
	s.note(err)
	return known, err
}

// carry has the policies written into each new file of the log.
func (s *records) carry(known map[string]*audit.PolicyState) {
	if s.to != nil {
		s.to.Carry(known)
	}
}

// requester is who wants a piece of work, and for which enrollment: without one, it is
// the work of a request that runs already.
type requester struct {
	enrollment string
	client     process.ID          // the program, as the system knows it
	kin        func() []process.ID // the processes that started it, see [identify]; may be nil
	command    string              // what the client says that it runs
}

// subject fills in who wanted it and for which enrolment; ok is false where nobody
// waits for it.
func (q requester) subject(to *audit.Record) (ok bool) {
	if q.enrollment == "" {
		return false
	}
	to.Enrollment, to.Client = q.enrollment, q.onRecord()
	return true
}

// onRecord names a client: by what the system tells or, where it does not, by what
// the client says, of whose command line only the program counts, as arguments may
// be secrets.
func (q requester) onRecord() *audit.Process {
	name := consent.CommandOf(q.client.PID)
	if name == "" {
		name, _, _ = strings.Cut(q.command, " ")
	}
	if q.client.PID == 0 && name == "" {
		return nil
	}
	const longest = 64
	if len(name) > longest {
		name = name[:longest]
	}
	return &audit.Process{PID: q.client.PID, Command: name}
}

// outcome sorts an error.
func outcome(err error) (audit.Outcome, string) {
	if err == nil {
		return audit.Granted, ""
	}
	code := message.Codes().Failure(err).Code
	if code == "" {
		code = "other"
	}
	for _, e := range []error{hsm.ErrCancelled, context.Canceled, message.ErrLocked} {
		if errors.Is(err, e) {
			return audit.Cancelled, code
		}
	}
	for _, e := range []error{hsm.ErrPINIncorrect, hsm.ErrPINLocked, hsm.ErrPINInvalid, hsm.ErrTouchTimeout, hsm.ErrKeyMismatch,
		message.ErrRejected, message.ErrNotClient, message.ErrCertificateExpired, enrollment.ErrUnknown, enrollment.ErrInvalid} {
		if errors.Is(err, e) {
			return audit.Refused, code
		}
	}
	return audit.Failed, code
}

// public leaves out what says how a token is reached.
func public(u hsm.URI) hsm.URI {
	return u.TokenOnly().Identity()
}

// unlock records an attempt to unlock a token.
func (s *records) unlock(q requester, token hsm.URI, err error) {
	r := audit.Record{Event: audit.Unlock, Token: public(token)}
	r.Outcome, r.Error = outcome(err)
	q.subject(&r)
	s.write(r)
}

// signature records the use of a key, or that it came to none. Only those
// that a client's plugin waits for are never counted together when they fail.
func (s *records) signature(q requester, e enrollment.Enrollment, err error) {
	r := audit.Record{Event: audit.Signature, Reason: "reconnect", Key: e.KeyHash, Token: public(e.Key)}
	r.Outcome, r.Error = outcome(err)
	asked := q.subject(&r)
	if asked {
		r.Reason = "sign-in"
	}
	r.Enrollment = e.Name
	if u, err := url.Parse(e.Cluster.Server); err == nil { // it has been dialled
		r.Server = u.Host
	}
	if err != nil && !asked {
		s.repeated(r)
		return
	}
	s.write(r)
}

// signed records a signature for a client that has the key's use itself.
func (s *records) signed(e enrollment.Enrollment, q requester, err error) {
	r := audit.Record{Event: audit.Signature, Reason: "external-signer", Enrollment: e.Name, Key: e.KeyHash, Token: public(e.Key), Client: q.onRecord()}
	r.Outcome, r.Error = outcome(err)
	if u, err := url.Parse(e.Cluster.Server); err == nil {
		r.Server = u.Host
	}
	s.write(r)
}

// session records a new session, or why there is none.
func (s *records) session(q requester, err error) {
	r := audit.Record{Event: audit.Session, Enrollment: q.enrollment, Client: q.onRecord()}
	r.Outcome, r.Error = outcome(err)
	if err == nil {
		s.write(r)
		return
	}
	if enrollment.ValidName(q.enrollment) != nil {
		r.Enrollment = "" // not a name: anything could be in it
	}
	s.repeated(r)
}

// denial records a request that the bridge refused.
func (s *records) denial(d bridge.Denial) {
	r := audit.Record{Event: audit.Denial, Code: d.Code, Reason: d.Reason, Enrollment: d.Enrollment}
	if d.Client.PID != 0 {
		r.Client = &audit.Process{PID: d.Client.PID, Command: consent.CommandOf(d.Client.PID)}
	}
	s.repeated(r)
}
