package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// Signatures checks signatures in the audit log. It reads the enrollments once, and again when
// one has changed. It is for one goroutine.
type Signatures struct {
	store   enrollment.Store
	version string
	all     []enrollment.Enrollment
	err     error // of enrollments that cannot be read
}

// Signatures returns what checks the signatures in the audit log of a.
func (a Agent) Signatures() *Signatures { return &Signatures{store: a.Env.Enrollments()} }

// Verify checks the token's signature in a record of the audit log: of a version of an
// enrollment's record by the key that it names, of a statement by the certificate that the
// enrollment had then. Errors wrap [consent.ErrSignature] or [consent.ErrFormerKey], or say what
// is missing.
func (s *Signatures) Verify(r audit.Record) error {
	if len(r.Signature) == 0 {
		return errors.New("the record has no signature")
	}
	if v := s.store.ListVersion(); s.all == nil || v != s.version {
		s.all, s.err = s.store.List()
		s.version = v
	}
	i := slices.IndexFunc(s.all, func(e enrollment.Enrollment) bool {
		return e.KeyHash == r.Key && (e.Name == r.Enrollment || e.SpareOf == r.Enrollment)
	})
	by := enrollment.Enrollment{Name: r.Enrollment, KeyHash: r.Key} // of which a certificate may be left
	if i >= 0 {
		by = s.all[i]
	}
	if err := verifySignature(s.store, r, by); err != nil || i >= 0 {
		return err
	}
	// Whoever writes into the log can write a certificate for a key of his own, too.
	return errors.Join(consent.ErrFormerKey, s.err)
}

// verifySignature checks the signature in r by the key of by.
func verifySignature(store enrollment.Store, r audit.Record, by enrollment.Enrollment) error {
	differs := fmt.Errorf("%w: the record says something else", consent.ErrSignature)
	if r.Event == audit.Policy {
		v, err := enrollment.Signed{Text: r.Statement, Signature: r.Signature}.Open(r.Key)
		if err == nil && (v.Number != r.Number || v.Name != r.Enrollment || v.Consent().String() != r.Policy) {
			err = differs
		}
		return err
	}
	s, err := consent.Read(r.Statement)
	if err != nil {
		return err
	}
	if s.Enrollment != r.Enrollment || s.Request.String() != r.Request {
		return differs
	}
	chain, err := store.Certificate(by)
	if err != nil {
		return err
	}
	return consent.Verify(chain[0].PublicKey, r.Statement, r.Signature)
}
