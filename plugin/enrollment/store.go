package enrollment

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/hsm/shared/strict"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Store keeps enrollments and certificates in the state folder. Several
// processes may use it at once: every write replaces a whole file.
type Store struct {
	enrollments  string
	certificates string
	used         string // folder of the names of keys used last, where there is a choice
	renewals     Renewals
}

// NewStore returns the store in d.State. It touches nothing.
func NewStore(d home.Dirs) Store {
	return Store{
		enrollments:  filepath.Join(d.State, "enrollments"),
		certificates: filepath.Join(d.State, "certificates"),
		used:         filepath.Join(d.State, "used"),
		renewals:     Renewals{filepath.Join(d.State, "renewals"), Begun(d)},
	}
}

// Save writes e, replacing an enrollment of that name. Errors: [ErrInvalid],
// [home.ErrUnsafe], or the file system's.
func (s Store) Save(e Enrollment) error {
	if err := e.Validate(); err != nil {
		return err
	}
	// What a cluster says of itself may be long, and a record that cannot be read again ends the use of its enrollment.
	if b, err := record.Encode(e); err == nil && len(b) > home.MaxFile {
		return fmt.Errorf("enrollment %s: %w: its record is larger than %d bytes", e.Name, ErrInvalid, home.MaxFile)
	}
	if err := home.WriteRecord(s.file(e.Name), format(), e); err != nil {
		return fmt.Errorf("enrollment %s: %w", e.Name, err)
	}
	return nil
}

// format is the format of the records. An unknown field may restrict the enrollment, so it is an
// error, unless a record of a later version says that it can be ignored.
func format() record.Format { return record.Format{Version: 1} }

// Load reads the enrollment of that name. Errors: [ErrUnknown], [ErrInvalid],
// [home.ErrUnsafe], or the file system's.
func (s Store) Load(name string) (Enrollment, error) {
	if err := ValidName(name); err != nil {
		return Enrollment{}, err
	}
	b, err := read(s.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return Enrollment{}, hint.With(fmt.Errorf("%q: %w", name, ErrUnknown),
			"enroll it with `kubehsm enroll`; `kubehsm kubeconfig list` shows what is enrolled")
	}
	if err != nil {
		return Enrollment{}, fmt.Errorf("enrollment %s: %w", name, err)
	}
	e, err := s.decode(name, b)
	return e, damaged(err, name)
}

func (s Store) decode(name string, b []byte) (Enrollment, error) {
	var e Enrollment
	switch err := format().Decode(b, &e); {
	case errors.Is(err, strict.ErrMore):
		return Enrollment{}, fmt.Errorf("enrollment %s: %w: %s holds more than one object", name, ErrInvalid, s.file(name))
	case err != nil:
		return Enrollment{}, fmt.Errorf("enrollment %s: %w: %s: %w", name, ErrInvalid, s.file(name), err)
	}
	if e.Name != name {
		return Enrollment{}, fmt.Errorf("enrollment %s: %w: %s says it is %q", name, ErrInvalid, s.file(name), e.Name)
	}
	return e, e.Validate()
}

// damaged adds the way to fix a file of the store that cannot be used.
func damaged(err error, name string) error {
	if errors.Is(err, record.ErrNewer) {
		return err // the error is whole, and its own hint says the next step
	}
	return hint.With(err,
		"`kubehsm enroll --name "+name+"` (join, if the cluster was joined) writes it anew from the record of the enrollment")
}

// List returns the enrollments in the order of their names. Those that cannot
// be read are left out and named in the error.
func (s Store) List() ([]Enrollment, error) {
	names, err := record.Names(s.enrollments)
	if err != nil {
		return nil, err
	}
	var all []Enrollment
	var errs []error
	for _, name := range names {
		e, err := s.Load(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, e)
	}
	return all, errors.Join(errs...)
}

// Servers returns the API server of each enrollment, by its name, for lists, and the names of spares by those of
// their enrollments. Nothing else of the records is judged, so that one which [Store.Load] refuses may be among them.
// Those that cannot be read are left out and named in the error.
func (s Store) Servers() (servers map[string]string, spares map[string][]string, err error) {
	names, err := record.Names(s.enrollments)
	if err != nil {
		return nil, nil, err
	}
	servers, spares = make(map[string]string, len(names)), map[string][]string{}
	var text []byte
	var errs []error
	for _, name := range names {
		b, err := home.ReadFile(s.file(name), home.MaxFile, text)
		var e listed
		if err == nil {
			text = b
			e, err = list(name, b)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("enrollment %s: %w", name, err))
			continue
		}
		servers[name] = e.Cluster.Server
		if e.SpareOf != "" {
			spares[e.SpareOf] = append(spares[e.SpareOf], name)
		}
	}
	return servers, spares, errors.Join(errs...)
}

type listed struct {
	Cluster struct{ Server string }
	SpareOf string
}

// list reads only what lists show. A record begins with that, in fixed words; a parser would read
// the whole record twice, which is slow for hundreds of them.
func list(name string, b []byte) (e listed, err error) {
	head, rest, ok := bytes.Cut(b, []byte("\",\n  \"cluster\": {\n    \"server\": \""))
	if ok && !bytes.Contains(rest, []byte(`"spareOf"`)) && string(head) == "{\n  \"name\": \""+name {
		if end := bytes.IndexAny(rest, `"\`); end >= 0 && rest[end] == '"' {
			e.Cluster.Server = string(rest[:end])
			return e, nil
		}
	}
	return e, record.Format{Version: format().Version, Lenient: true}.Decode(b, &e)
}

// Delete removes the enrollment and its certificates. A missing one is [ErrUnknown].
func (s Store) Delete(name string) error {
	if err := ValidName(name); err != nil {
		return err
	}
	err := os.Remove(s.file(name)) // first: without it nothing serves the certificate
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%q: %w", name, ErrUnknown)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(s.lastUsed(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.renewals.forget(name); err != nil {
		return err
	}
	chains, err := filepath.Glob(filepath.Join(s.certificates, "*", name+".pem"))
	if err != nil {
		return err
	}
	for _, c := range chains {
		err = errors.Join(err, os.Remove(c))
	}
	return err
}

// SaveCertificate writes the chain, leaf first, for e's key and name. The leaf
// must be for that key ([hsm.ErrKeyMismatch]).
func (s Store) SaveCertificate(e Enrollment, chain []*x509.Certificate) error {
	if err := e.Validate(); err != nil {
		return err
	}
	if err := checkLeaf(e, chain); err != nil {
		return err
	}
	if err := home.MakeDir(filepath.Dir(s.chain(e))); err != nil {
		return fmt.Errorf("certificate of %s: %w", e.Name, err)
	}
	return home.WriteFile(s.chain(e), EncodeChain(chain))
}

// DeleteCertificate removes the chain of e's key, which the enrollment of e's name no longer has. A missing one is no
// error.
func (s Store) DeleteCertificate(e Enrollment) error {
	if err := os.Remove(s.chain(e)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("certificate of %s: %w", e.Name, err)
	}
	return nil
}

// Certificate reads e's chain, leaf first. Errors: [hsm.ErrNoCertificate],
// [hsm.ErrKeyMismatch], [ErrInvalid]. Its dates are the caller's concern.
func (s Store) Certificate(e Enrollment) ([]*x509.Certificate, error) {
	b, err := read(s.chain(e))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint.Withf(fmt.Errorf("enrollment %s has no certificate yet: %w", e.Name, hsm.ErrNoCertificate),
			"finish it with `%s`", e.Command())
	}
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", e.Name, err)
	}
	chain, err := decodeChain(b)
	if err != nil {
		return nil, damaged(fmt.Errorf("certificate of %s: %w: %s: %w", e.Name, ErrInvalid, s.chain(e), err), e.Name)
	}
	return chain, checkLeaf(e, chain)
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

// Version changes whenever the enrollment, its certificate or one of others is written again, and
// with every enrollment that comes, goes or is replaced.
// It costs a stat for each, so that who holds them in memory can tell cheaply.
func (s Store) Version(e Enrollment, others ...Enrollment) string {
	v := make([]byte, 0, 48*(3+len(others)))
	for _, path := range []string{s.enrollments, s.file(e.Name), s.chain(e)} {
		v = stamp(v, path)
	}
	for _, o := range others {
		v = stamp(v, s.enrollments+string(filepath.Separator)+o.Name+".json")
	}
	return string(v)
}

// ListVersion changes whenever an enrollment is written, comes or goes.
func (s Store) ListVersion() string { return string(stamp(nil, s.enrollments)) }

// stamp appends an identity of the file at path that changes when it is replaced.
func stamp(v []byte, path string) []byte {
	info, err := os.Stat(path)
	if err != nil {
		return append(v, "- "...)
	}
	v = append(strconv.AppendInt(v, info.ModTime().UnixNano(), 36), '/')
	v = append(strconv.AppendInt(v, info.Size(), 36), '/')
	return append(inode(v, info), ' ')
}

func checkLeaf(e Enrollment, chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return fmt.Errorf("certificate of %s: %w", e.Name, hsm.ErrNoCertificate)
	}
	hash, err := hsm.Fingerprint(chain[0].PublicKey)
	if err != nil {
		return fmt.Errorf("certificate of %s: %w", e.Name, err)
	}
	if hash != e.KeyHash {
		return hint.Withf(fmt.Errorf("the certificate of %s is for another key: %w", e.Name, hsm.ErrKeyMismatch),
			"enroll again with `%s`", e.Command())
	}
	return nil
}

func read(path string) ([]byte, error) { return home.ReadFile(path, home.MaxFile, nil) }

func (s Store) file(name string) string { return filepath.Join(s.enrollments, name+".json") }

func (s Store) chain(e Enrollment) string {
	return filepath.Join(s.certificates, e.KeyHash, e.Name+".pem")
}
