// Package deeds keeps the local record of what was done for others, or asked of them:
// tickets, approvals, denials, revocations, break-glass. A cluster forgets requests and
// tickets within hours; the record does not. It holds nothing secret, and knows no cluster.
package deeds

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Deed is something that was done for others, or asked of them, as the local
// record keeps it. It holds nothing secret.
type Deed struct {
	Time time.Time `json:"time"`
	// Action is "ticket", "approve", "deny", "revoke", "break-glass-request",
	// "break-glass-approve".
	Action string `json:"action"`
	Server string `json:"server,omitempty"`
	// Ticket is the ID of a ticket's token, Terms what it is for.
	Ticket string        `json:"ticket,omitempty"`
	Terms  *ticket.Terms `json:"terms,omitempty"`
	// Request and Fingerprint name a certificate request and its key.
	Request     string `json:"request,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Certificate is the SHA-256 of the one that was approved.
	Certificate string `json:"certificate,omitempty"`
	User        string `json:"user,omitempty"`
	// Keys and Certificates are what was known of a user whose access was taken
	// away, named as in Fingerprint and Certificate.
	Keys         []string `json:"keys,omitempty"`
	Certificates []string `json:"certificates,omitempty"`
	Reason       string   `json:"reason,omitempty"`
	// Expires is when the ticket or the certificate ends.
	Expires *time.Time `json:"expires,omitempty"`
	// Note says what else there is to know.
	Note string `json:"note,omitempty"`
}

// Log is the local record of what was done for others. It outlives the cluster's, which
// forgets requests and tickets.
type Log struct{ env *env.Env }

// NewLog returns the record in the folders of e.
func NewLog(e *env.Env) Log { return Log{env: e} }

func (l Log) path() string { return filepath.Join(l.env.Dirs.State, "helpdesk.jsonl") }

// MaxDeed bounds one line of the record, in bytes.
const MaxDeed = 64 << 10

// Add appends d to the record, whole or not at all.
func (l Log) Add(ctx context.Context, d Deed) (err error) {
	defer func() {
		if err != nil {
			err = l.env.Unwritable(fmt.Errorf("record of the help desk: %w", err))
		}
	}()
	d.Time = time.Now().UTC().Truncate(time.Second)
	d.Note, d.Reason = csr.Brief(d.Note), csr.Brief(d.Reason)
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if len(line) >= MaxDeed {
		return fmt.Errorf("the record has %d bytes; the limit is %d", len(line), MaxDeed)
	}
	if err := l.env.Dirs.Prepare(); err != nil {
		return err
	}
	path := l.path()
	lock := filelock.New(path + ".lock")
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return errors.Join(err, lock.Close())
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	f, _, err := home.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// NotMade is the action that takes a ticket out of the record: the cluster has
// not made it.
const NotMade = "ticket-not-made"

// All reads the record, the oldest first, without tickets that were not made. A
// line that a crash has cut off is passed over.
func (l Log) All() ([]Deed, error) {
	f, _, err := home.OpenFile(l.path(), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("record of the help desk: %w", err)
	}
	defer f.Close() // only read from
	var all []Deed
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, MaxDeed)
	for lines.Scan() {
		var d Deed
		if json.Unmarshal(lines.Bytes(), &d) == nil {
			all = append(all, d)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("record of the help desk: %w", err)
	}
	none := map[string]bool{}
	for _, d := range all {
		if d.Action == NotMade {
			none[d.Ticket] = true
		}
	}
	return slices.DeleteFunc(all, func(d Deed) bool {
		return d.Action == NotMade || d.Action == "ticket" && none[d.Ticket]
	}), nil
}
