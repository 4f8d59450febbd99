package enrollment

import (
	"fmt"
	"path/filepath"

	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// policyFormat is that of the records of policies.
func policyFormat() record.Format { return record.Format{Version: 1} }

// Policy reads the record of the policy of the key with that hash ([hsm.Fingerprint]),
// which is for all enrollments of the key. Whether it counts is not the store's to say. A
// missing one is [fs.ErrNotExist]; other errors are the file system's, [home.ErrUnsafe]
// or [ErrInvalid].
func (s Store) Policy(hash string) (p consent.Signed, err error) {
	b, err := read(s.policy(hash))
	if err != nil {
		return p, fmt.Errorf("consent policy: %w", err)
	}
	if err := policyFormat().Decode(b, &p); err != nil {
		return consent.Signed{}, fmt.Errorf("consent policy: %w: %s: %w", ErrInvalid, s.policy(hash), err)
	}
	return p, nil
}

// SavePolicy replaces the record of the policy of the key with that hash.
func (s Store) SavePolicy(hash string, p consent.Signed) error {
	if err := home.WriteRecord(s.policy(hash), policyFormat(), p); err != nil {
		return fmt.Errorf("consent policy: %w", err)
	}
	return nil
}

// LockPolicy keeps two apart that set the policy of the key with that hash.
func (s Store) LockPolicy(hash string) (filelock.Lock, error) {
	if err := home.MakeDir(s.policies); err != nil {
		return filelock.Lock{}, err
	}
	return home.Lock(filepath.Join(s.policies, hash+".lock"))
}

// OfKey returns the enrollments of the key with that hash, in the order of their names.
// Those that cannot be read are left out and named in the error.
func (s Store) OfKey(hash string) (all []Enrollment, err error) {
	list, err := s.List()
	for _, e := range list {
		if e.KeyHash == hash {
			all = append(all, e)
		}
	}
	return all, err
}

func (s Store) policy(hash string) string { return filepath.Join(s.policies, hash+".json") }
