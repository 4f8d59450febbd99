package enrollment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Renewal is what is on record of the renewals of an enrollment's certificate, by the agent and by
// people.
type Renewal struct {
	// KeyHash is that of the key whose certificate it is.
	KeyHash string `json:"keyHash"`
	// Approver is the reason that an approver in the cluster gave when it approved the last request
	// by itself; "" where nobody did.
	Approver string `json:"approver,omitempty"`
	// Expiration is the lifetime that the last request asked for; 0 left it to the signer.
	Expiration time.Duration `json:"expiration,omitempty"`
	// Request is the one that was made and has not come to its end; nil if there is none.
	Request *RenewalRequest `json:"request,omitempty"`
	// Failure says why the agent's last attempt came to nothing, "" if it did not, and Failed when
	// that was.
	Failure string    `json:"failure,omitempty"`
	Failed  time.Time `json:"failed,omitzero"`
}

// RenewalRequest is a request for the next certificate. It is recorded before it is filed.
type RenewalRequest struct {
	// Name and PKCS10 (PEM) are those of the object in the cluster, UID is "" until the cluster has
	// answered.
	Name   string    `json:"name"`
	UID    string    `json:"uid,omitempty"`
	PKCS10 []byte    `json:"pkcs10"`
	Made   time.Time `json:"made"`
	// ByPerson: `kubehsm certificate renew` goes on with it, and the agent leaves it alone.
	ByPerson bool `json:"byPerson,omitempty"`
}

// ErrBusy says that another process works on an enrollment.
var ErrBusy = errors.New("is being worked on by another kubehsm")

// ErrChanged says that an enrollment is no longer as it was when work on it began.
var ErrChanged = errors.New("the enrollment was changed meanwhile")

func renewalFormat() record.Format { return record.Format{Version: 1} }

// Renewals are what is on record of renewals, and keep those apart that work on an enrollment.
type Renewals struct{ dir, begun string }

// Renewals returns the records beside the enrollments of s.
func (s Store) Renewals() Renewals { return s.renewals }

// Begun is the folder of the records of enrollments under way, and of the locks of [Renewals.Lock].
func Begun(d home.Dirs) string { return filepath.Join(d.State, "enrolling") }

// Load reads what is on record of the renewals of e. It is empty but for e's key if nothing is.
func (s Renewals) Load(e Enrollment) (Renewal, error) {
	none := Renewal{KeyHash: e.KeyHash}
	b, err := read(s.file(e.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	var r Renewal
	if err == nil {
		err = renewalFormat().Decode(b, &r)
	}
	if err != nil {
		return none, fmt.Errorf("record of renewals of %s: %w", e.Name, err)
	}
	if r.KeyHash != e.KeyHash { // the enrollment has another key since
		return none, nil
	}
	return r, nil
}

// Save writes what is on record of the renewals of the enrollment called name.
func (s Renewals) Save(name string, r Renewal) error {
	if err := ValidName(name); err != nil {
		return err
	}
	if err := home.WriteRecord(s.file(name), renewalFormat(), r); err != nil {
		return fmt.Errorf("record of renewals of %s: %w", name, err)
	}
	return nil
}

func (s Renewals) forget(name string) error {
	if err := os.Remove(s.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Lock keeps others from the enrollment called name. The lock dies with the process. The error
// is [ErrBusy] if another has it for longer than a second.
func (s Renewals) Lock(ctx context.Context, name string) (release func(), err error) {
	if err := ValidName(name); err != nil { // the name becomes a file's
		return nil, err
	}
	if err := home.MakeDir(s.begun); err != nil {
		return nil, err
	}
	lock := filelock.New(filepath.Join(s.begun, name+".lock"))
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = lock.TryLockContext(wait, 50*time.Millisecond)
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), lock.Close())
	case errors.Is(err, context.DeadlineExceeded): // the error is not wrapped: nothing timed out for the person
		return nil, hint.With(errors.Join(fmt.Errorf("the enrollment %q %w", name, ErrBusy), lock.Close()),
			"wait until it ends, or stop it")
	case err != nil:
		return nil, fmt.Errorf("lock the enrollment %q: %w", name, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

func (s Renewals) file(name string) string { return filepath.Join(s.dir, name+".json") }
