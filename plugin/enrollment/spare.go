package enrollment

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Spares returns the spares of the enrollment called name, in the order of their names. Those that
// cannot be read are left out and named in the error. A record that does not mention spareOf is not decoded.
func (s Store) Spares(name string) ([]Enrollment, error) {
	names, err := record.Names(s.enrollments)
	if err != nil {
		return nil, err
	}
	var all []Enrollment
	var errs []error
	for _, n := range names {
		if b, err := read(s.file(n)); err == nil && !bytes.Contains(b, []byte(`"spareOf"`)) {
			continue
		}
		e, err := s.Load(n)
		if err != nil {
			errs = append(errs, err)
		} else if e.SpareOf == name {
			all = append(all, e)
		}
	}
	return all, errors.Join(errs...)
}

// Family returns the enrollments that e shares a context with: the one that has the context, then
// its spares in the order of their names. e is among them. Those that cannot be read are left out
// and named in the error.
func (s Store) Family(e Enrollment) ([]Enrollment, error) {
	first := e
	var missing error
	if e.SpareOf != "" {
		var err error
		if first, err = s.Load(e.SpareOf); errors.Is(err, ErrUnknown) { // the spare is left alone
			return []Enrollment{e}, nil
		} else if err != nil {
			first, missing = e, err
		}
	}
	spares, err := s.Spares(first.Name)
	return append([]Enrollment{first}, spares...), errors.Join(missing, err)
}

// LastUsed returns the name of the enrollment, of the one called name and its spares, whose key
// signed in last; name if that is not known.
func (s Store) LastUsed(name string) string {
	b, err := read(s.lastUsed(name))
	if last := strings.TrimSpace(string(b)); err == nil && validName(last) {
		return last
	}
	return name
}

// InUse returns the enrollment whose key signed in last: e or one of its spares.
func (s Store) InUse(e Enrollment) Enrollment {
	if last := s.LastUsed(e.Name); last != e.Name {
		if spare, err := s.Load(last); err == nil && spare.IsSpareOf(e) {
			return spare
		}
	}
	return e
}

// NoteUsed notes that the key of the enrollment called last, which is the one called name or one of
// its spares, has signed in.
func (s Store) NoteUsed(name, last string) error {
	if s.LastUsed(name) == last {
		return nil
	}
	if err := home.MakeDir(s.used); err != nil {
		return err
	}
	return home.WriteFile(s.lastUsed(name), []byte(last+"\n"))
}

func (s Store) lastUsed(name string) string { return filepath.Join(s.used, name) }
