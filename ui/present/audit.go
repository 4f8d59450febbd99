package present

import (
	"errors"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/ui/text"
)

// NoRecords is said where the audit log has none, before a period or the time that it
// is about.
const NoRecords = "Nothing is on record"

// AuditRow is a record of the audit log in a list, without its time.
type AuditRow struct {
	Event      string
	Outcome    Line
	Enrollment string
	Program    string // command and process id; "" where no program was concerned
	Detail     string // the rest of what the record tells
}

// AuditRowOf puts a record into a row. verify checks the token's signature in a record
// that has one; its errors wrap [consent.ErrSignature] where it is wrong.
func AuditRowOf(r audit.Record, verify func(audit.Record) error) AuditRow {
	row := AuditRow{Event: text.Clean(string(r.Event)), Outcome: Line{Words: text.Clean(string(r.Outcome))},
		Enrollment: text.Clean(r.Enrollment), Detail: text.Clean(auditDetail(r, verify))}
	if r.Client != nil {
		row.Program = text.Clean(strings.TrimSpace(r.Client.Command + " " + strconv.Itoa(r.Client.PID)))
	}
	switch r.Outcome {
	case audit.Granted:
		row.Outcome.Level = Good
	case audit.Refused, audit.Failed:
		row.Outcome.Level = Bad
	case audit.Cancelled:
		row.Outcome.Level = Warn
	}
	return row
}

func auditDetail(r audit.Record, verify func(audit.Record) error) string {
	code, times, at, of := "", "", "", ""
	if r.Code != 0 {
		code = strconv.Itoa(r.Code)
	}
	if r.Count > 1 {
		times = strconv.Itoa(r.Count) + " times"
	}
	if r.Server != "" {
		at = "at " + r.Server
	}
	switch name := r.Token.TokenName(); {
	case r.Event == audit.Signature && len(r.Key) >= 16:
		of = "key " + r.Key[:16]
	case name != "":
		of = "token " + name
	}
	return join(code, r.Request, reason(r), r.Policy, signed(r, verify), stated(r), failed(r), times, r.Version,
		at, of)
}

// reason is why something happened, in words where the record has a code for it.
func reason(r audit.Record) string {
	switch {
	case r.Event == audit.WorkerEnd:
		return workerEnd(r)
	case r.Event == audit.Policy && r.Reason == "first":
		return "first seen since the agent started"
	}
	return r.Reason
}

// workerEnd says how a process that held a token ended, and what that may have cost.
func workerEnd(r audit.Record) string {
	words := "its library crashed"
	if r.Reason != "crash" {
		words = "it did not answer and was killed"
	}
	if r.PIN {
		words += "; it had the PIN, so the token may have counted a try"
	}
	return words
}

// failed is the error of a record whose reason does not say it.
func failed(r audit.Record) string {
	switch r.Error {
	case "context-canceled":
		return "given up: the program that asked has ended, or stopped waiting"
	case "deadline-exceeded":
		return "given up: it took too long"
	}
	return r.Error
}

// stated is what the statement says of the request's body and of the program's file.
func stated(r audit.Record) string {
	if r.Event != audit.Consent || r.Statement == "" {
		return ""
	}
	s, err := consent.Read(r.Statement)
	if err != nil { // a record of another program; whether it is signed was said
		return ""
	}
	words := ""
	if s.Body != nil {
		words = "body of " + s.Body.String()
	}
	if s.Program.Path != "" {
		words = join(words, s.Program.String())
	}
	return words
}

// signed says whether the signature in a record is good, "" without one.
func signed(r audit.Record, verify func(audit.Record) error) string {
	if len(r.Signature) == 0 {
		return ""
	}
	switch err := verify(r); {
	case err == nil && r.Number > 0:
		return "signed as version " + strconv.FormatUint(r.Number, 10)
	case err == nil:
		return "signed"
	case errors.Is(err, consent.ErrSignature):
		return "WRONG SIGNATURE"
	case errors.Is(err, consent.ErrFormerKey):
		return consent.ErrFormerKey.Error()
	default:
		return "signature not checked: " + err.Error()
	}
}
