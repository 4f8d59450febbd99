package agent

import (
	"context"
	"crypto"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// record writes to the audit log. The work goes on if that fails, and the
// agent's status says so.
func (a *agent) record(r audit.Record) { a.write(r, (*audit.Log).Write) }

// recordRepeated is record for what a program may try in a loop.
func (a *agent) recordRepeated(r audit.Record) { a.write(r, (*audit.Log).Repeated) }

func (a *agent) write(r audit.Record, to func(*audit.Log, audit.Record) error) {
	if a.audit == nil {
		return
	}
	r.Agent = a.o.pid
	a.noteAudit(to(a.audit, r))
}

// recoverAudit writes what was only counted so far, and begins a new log where
// somebody has removed it.
func (a *agent) recoverAudit() {
	if a.audit == nil {
		return
	}
	lost, err := a.audit.Recover()
	a.noteAudit(err)
	if lost {
		a.record(audit.Record{Event: audit.Lost})
	}
	a.noteAudit(a.audit.Flush())
}

func (a *agent) noteAudit(err error) {
	if err == nil {
		return
	}
	s := err.Error()
	if old := a.auditErr.Swap(&s); old == nil || *old != s {
		a.log.Error("audit", "error", err)
	}
}

// requestKey carries the request that started a piece of work.
type requestKey struct{}

func withRequest(ctx context.Context, r request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// subject fills in who wanted it and for which enrolment; ok is false where no
// client's request is behind it.
func subject(ctx context.Context, to *audit.Record) (ok bool) {
	r, ok := ctx.Value(requestKey{}).(request)
	if ok {
		to.Enrollment, to.Client = r.Enrollment, clientOf(r)
	}
	return ok
}

// clientOf names a client: by what the system tells or, where it does not, by what
// the client says, of whose command line only the program counts, as arguments may
// be secrets.
func clientOf(r request) *audit.Process {
	name := commandOf(r.Client.PID)
	if name == "" {
		name, _, _ = strings.Cut(r.Purpose.Command, " ")
	}
	if r.Client.PID == 0 && name == "" {
		return nil
	}
	const longest = 64
	if len(name) > longest {
		name = name[:longest]
	}
	return &audit.Process{PID: r.Client.PID, Command: name}
}

// outcome sorts an error.
func outcome(err error) (audit.Outcome, string) {
	if err == nil {
		return audit.Granted, ""
	}
	code := toFailure(err).Code
	if code == "" {
		code = "other"
	}
	for _, e := range []error{hsm.ErrCancelled, context.Canceled, errLocked} {
		if errors.Is(err, e) {
			return audit.Cancelled, code
		}
	}
	for _, e := range []error{hsm.ErrPINIncorrect, hsm.ErrPINLocked, hsm.ErrPINInvalid, hsm.ErrTouchTimeout, hsm.ErrKeyMismatch,
		ErrRejected, ErrNotClient, ErrCertificateExpired, enrollment.ErrUnknown, enrollment.ErrInvalid} {
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

func (a *agent) recordUnlock(ctx context.Context, token hsm.URI, err error) {
	r := audit.Record{Event: audit.Unlock, Token: public(token)}
	r.Outcome, r.Error = outcome(err)
	subject(ctx, &r)
	a.record(r)
}

// recordSignature records the use of a key, or that it came to none. Only those
// that a client's plugin waits for are never counted together when they fail.
func (a *agent) recordSignature(ctx context.Context, e enrollment.Enrollment, err error) {
	r := audit.Record{Event: audit.Signature, Reason: "reconnect", Key: e.KeyHash, Token: public(e.Key)}
	r.Outcome, r.Error = outcome(err)
	asked := subject(ctx, &r)
	if asked {
		r.Reason = "sign-in"
	}
	r.Enrollment = e.Name
	if u, err := url.Parse(e.Cluster.Server); err == nil { // it has been dialled
		r.Server = u.Host
	}
	if err != nil && !asked {
		a.recordRepeated(r)
		return
	}
	a.record(r)
}

// recordSession records a new session, or why there is none.
func (a *agent) recordSession(q request, err error) {
	r := audit.Record{Event: audit.Session, Enrollment: q.Enrollment, Client: clientOf(q)}
	r.Outcome, r.Error = outcome(err)
	if err == nil {
		a.record(r)
		return
	}
	if enrollment.ValidName(q.Enrollment) != nil {
		r.Enrollment = "" // not a name: anything could be in it
	}
	a.recordRepeated(r)
}

func (a *agent) recordDenial(d bridge.Denial) {
	r := audit.Record{Event: audit.Denial, Code: d.Code, Reason: d.Reason, Enrollment: d.Enrollment}
	if d.Client.PID != 0 {
		r.Client = &audit.Process{PID: d.Client.PID, Command: commandOf(d.Client.PID)}
	}
	a.recordRepeated(r)
}

// recordedSigner records each signature.
type recordedSigner struct {
	crypto.Signer
	signed func(error)
}

func (s recordedSigner) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	sig, err := s.Signer.Sign(rand, digest, opts)
	s.signed(err)
	return sig, err
}
