package auditing

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
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// Records writes what the agent does to the audit log. The work goes on if that
// fails, but for what must be on record, and the agent's status says so.
type Records struct {
	log     *slog.Logger
	agent   int                    // the agent's process
	To      *audit.Log             // nil in tests that do not look at it
	path    string                 // the audit log's path
	problem atomic.Pointer[string] // the reason why the audit log cannot be written
}

// NewRecords writes to an audit log, which is at path, for the agent that has that
// process number.
func NewRecords(to *audit.Log, path string, agent int, log *slog.Logger) *Records {
	return &Records{log: log, agent: agent, To: to, path: path}
}

// Write writes a record.
func (s *Records) Write(r audit.Record) { _ = s.Keep(r) } // the status shows the error

// Keep is Write for what counts only if it is on record.
func (s *Records) Keep(r audit.Record) error { return s.put(r, (*audit.Log).Write) }

// Repeated is Write for what a program may try in a loop.
func (s *Records) Repeated(r audit.Record) { _ = s.put(r, (*audit.Log).Repeated) }

func (s *Records) put(r audit.Record, to func(*audit.Log, audit.Record) error) error {
	if s.To == nil {
		return nil
	}
	r.Agent = s.agent
	err := to(s.To, r)
	s.note(err)
	return err
}

// Recover writes what was only counted so far, and begins a new log where
// somebody has removed it.
func (s *Records) Recover() {
	if s.To == nil {
		return
	}
	lost, err := s.To.Recover()
	s.note(err)
	if lost {
		s.Write(audit.Record{Event: audit.Lost})
	}
	s.note(s.To.Flush())
}

// note keeps an error of the audit log for the status.
func (s *Records) note(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if old := s.problem.Swap(&text); old == nil || *old != text {
		s.log.Error("audit", "error", err)
	}
}

// Problem is why the audit log cannot be written, "" if it can.
func (s *Records) Problem() string {
	if p := s.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// Requester is who wants a piece of work, and for which enrollment: without one, it is
// the work of a request that runs already.
type Requester struct {
	Enrollment string       // the enrollment's name
	Client     process.ID   // the program, as the system knows it
	Kin        []process.ID // the processes that have started it, which may be the client instead
	Command    string       // the command line that the client tells
}

// subject fills in who wanted it and for which enrollment; ok is false where nobody
// waits for it.
func (q Requester) subject(to *audit.Record) (ok bool) {
	if q.Enrollment == "" {
		return false
	}
	to.Enrollment, to.Client = q.Enrollment, q.onRecord()
	return true
}

// Shown is the command line for a prompt: what the client tells, if it begins with the name
// that the system tells of the program, and else that name.
func (q Requester) Shown() string {
	name := consent.CommandOf(q.Client.PID)
	if told, _, _ := strings.Cut(q.Command, " "); name == "" || told == name {
		return q.Command
	}
	return name
}

// onRecord names a client: by what the system tells or, where it does not, by what
// the client says, of whose command line only the program counts, as arguments may
// be secrets.
func (q Requester) onRecord() *audit.Process {
	name := consent.CommandOf(q.Client.PID)
	if name == "" {
		name, _, _ = strings.Cut(q.Command, " ")
	}
	if q.Client.PID == 0 && name == "" {
		return nil
	}
	const longest = 64
	if len(name) > longest {
		name = name[:longest]
	}
	return &audit.Process{PID: q.Client.PID, Command: name}
}

// Outcome sorts an error.
func Outcome(err error) (audit.Outcome, string) {
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
	for _, e := range []error{hsm.ErrPINIncorrect, hsm.ErrPINLocked, hsm.ErrPINInvalid, hsm.ErrTouchTimeout,
		hsm.ErrKeyMismatch,
		message.ErrRejected, message.ErrNotClient, message.ErrCertificateExpired, enrollment.ErrUnknown,
		enrollment.ErrInvalid, enrollment.ErrUnsigned} {
		if errors.Is(err, e) {
			return audit.Refused, code
		}
	}
	return audit.Failed, code
}

// Public leaves out what says how a token is reached.
func Public(u hsm.URI) hsm.URI {
	return u.TokenOnly().Identity()
}

// WorkerEnded records the end of a process that held a token and was not told to end.
func (s *Records) WorkerEnded(e worker.End) {
	reason := "crash"
	if e.Killed {
		reason = "no-answer"
	}
	s.Write(audit.Record{Event: audit.WorkerEnd, Reason: reason, Token: Public(e.Token), PIN: e.PIN})
}

// Unlocking returns what records the end of q's attempt to unlock a token.
func (s *Records) Unlocking(q Requester, token hsm.URI) (tried func(error)) {
	return func(err error) {
		r := audit.Record{Event: audit.Unlock, Token: Public(token)}
		r.Outcome, r.Error = Outcome(err)
		q.subject(&r)
		s.Write(r)
	}
}

// Signature records the use of a key, or that it came to none. Only those
// that a client's plugin waits for are never counted together when they fail.
func (s *Records) Signature(q Requester, e enrollment.Enrollment, err error) {
	r := audit.Record{Event: audit.Signature, Reason: "reconnect", Key: e.KeyHash, Token: Public(e.Key)}
	r.Outcome, r.Error = Outcome(err)
	asked := q.subject(&r)
	if asked {
		r.Reason = "sign-in"
	}
	r.Enrollment, r.Server = e.Name, hostOf(e) // the server has been dialled
	if err != nil && !asked {
		s.Repeated(r)
		return
	}
	s.Write(r)
}

// Signed records a signature for a client that has the key's use itself.
func (s *Records) Signed(e enrollment.Enrollment, q Requester, err error) {
	s.signed(e, q, "external-signer", err)
}

// SignedRecord records a signature over the record of a spare.
func (s *Records) SignedRecord(e enrollment.Enrollment, q Requester, err error) {
	s.signed(e, q, "record", err)
}

// SignedRenewal records a signature over a request for the next certificate.
func (s *Records) SignedRenewal(e enrollment.Enrollment, err error) {
	s.signed(e, Requester{}, "renewal", err)
}

// Renewal records how an attempt of the agent ended to renew a certificate.
func (s *Records) Renewal(e enrollment.Enrollment, err error) {
	r := audit.Record{Event: audit.Renewal, Enrollment: e.Name, Key: e.KeyHash, Token: Public(e.Key)}
	if r.Outcome, r.Error = Outcome(err); err != nil {
		s.Repeated(r)
		return
	}
	s.Write(r)
}

// Follow records that the cluster of e announces another address or authority.
func (s *Records) Follow(e enrollment.Enrollment) {
	s.Write(audit.Record{Event: audit.Follow, Enrollment: e.Name, Server: hostOf(e), Outcome: audit.Refused,
		Error: "unaccepted"})
}

// Version records a version of the record of e that its key has signed.
func (s *Records) Version(e enrollment.Enrollment, v enrollment.Version, reason string) {
	s.Write(audit.Record{Event: audit.Policy, Reason: reason, Enrollment: e.Name, Server: hostOf(e), Key: e.KeyHash,
		Token: Public(e.Key), Policy: v.Consent().String(), Number: v.Number, Statement: e.Signed.Text,
		Signature: e.Signed.Signature})
}

// hostOf is the server's host, and port if its URL has one; "" if it is no URL.
func hostOf(e enrollment.Enrollment) string {
	if u, err := url.Parse(e.Cluster.Server); err == nil {
		return u.Host
	}
	return ""
}

func (s *Records) signed(e enrollment.Enrollment, q Requester, reason string, err error) {
	r := audit.Record{Event: audit.Signature, Reason: reason, Enrollment: e.Name, Key: e.KeyHash,
		Token: Public(e.Key), Client: q.onRecord()}
	r.Outcome, r.Error = Outcome(err)
	r.Server = hostOf(e)
	s.Write(r)
}

// Session records a new session, or why there is none.
func (s *Records) Session(q Requester, err error) {
	r := audit.Record{Event: audit.Session, Enrollment: q.Enrollment, Client: q.onRecord()}
	r.Outcome, r.Error = Outcome(err)
	if err == nil {
		s.Write(r)
		return
	}
	if enrollment.ValidName(q.Enrollment) != nil {
		r.Enrollment = "" // a text that is no name could hold anything
	}
	s.Repeated(r)
}

// Denial records a request that the bridge refused.
func (s *Records) Denial(d bridge.Denial) {
	r := audit.Record{Event: audit.Denial, Code: d.Code, Reason: d.Reason, Enrollment: d.Enrollment}
	if d.Client.PID != 0 {
		r.Client = &audit.Process{PID: d.Client.PID, Command: consent.CommandOf(d.Client.PID)}
	}
	s.Repeated(r)
}
