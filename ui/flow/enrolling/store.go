package enrolling

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Store keeps the records of what was begun here: enrollments and requests.
type Store struct{ env *env.Env }

// NewStore returns the records in the folders of e.
func NewStore(e *env.Env) Store { return Store{env: e} }

// format is that of the records here. What they hold restricts nothing: they are the
// user's own notes of what to go on with.
func format() record.Format { return record.Format{Version: 1, Lenient: true} }

// Path is the file of the record of the enrollment called name.
func (s Store) Path(name string) string {
	return filepath.Join(s.env.ProgressDir(), name+".json")
}

// Save writes j whole or not at all.
func (s Store) Save(j *Progress) error {
	j.Updated = time.Now().UTC().Truncate(time.Second)
	if err := home.WriteRecord(s.Path(j.Options.Name), format(), j); err != nil {
		return fmt.Errorf("enrollment record: %w", err)
	}
	return nil
}

// ForgetKey has the enrollment called name make a new key, on a token: its key is destroyed, and what
// was made for that is of no use. Without a record there is nothing to forget.
func (s Store) ForgetKey(name string, token hsm.URI) error {
	j, err := s.Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	o := j.Options
	o.Token, o.Key, o.Renewal = token, hsm.URI{}, nil
	return s.Save(&Progress{Options: o})
}

// Load reads the record of the enrollment called name. The error wraps
// [fs.ErrNotExist] if there is none.
func (s Store) Load(name string) (*Progress, error) {
	if err := enrollment.ValidName(name); err != nil {
		return nil, err
	}
	b, err := home.ReadFile(s.Path(name), record.MaxSize, nil)
	if err != nil {
		return nil, fmt.Errorf("enrollment record: %w", err)
	}
	var j Progress
	switch err := format().Decode(b, &j); {
	case errors.Is(err, record.ErrNewer):
		return nil, fmt.Errorf("enrollment record %s: %w", s.Path(name), err)
	case err != nil:
		return nil, hint.Withf(fmt.Errorf("enrollment record %s: %w", s.Path(name), err),
			"remove it and enroll again; the key on the token can be reused with --key")
	}
	return &j, nil
}

// Unfinished lists the enrollments that were begun and not finished, the latest first.
func (s Store) Unfinished(ctx context.Context) ([]Progress, error) {
	all, err := s.All()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(j Progress) bool { return j.Finished() })
	sort.Slice(all, func(a, b int) bool { return all[a].Updated.After(all[b].Updated) })
	return all, ctx.Err()
}

// All reads all records.
func (s Store) All() ([]Progress, error) {
	names, err := record.Names(s.env.ProgressDir())
	if err != nil {
		return nil, fmt.Errorf("enrollment records: %w", err)
	}
	var all []Progress
	for _, name := range names {
		j, err := s.Load(name)
		if err != nil {
			return nil, err
		}
		all = append(all, *j)
	}
	return all, nil
}

func (s Store) requestsDir() string { return filepath.Join(s.env.Dirs.State, "requests") }

// RequestPath is the record's file: a name can stand for requests in several clusters.
func (s Store) RequestPath(server, name string) string {
	return filepath.Join(s.requestsDir(), name+"@"+serverMark(server)+".json")
}

// serverMark tells API servers apart in file names.
func serverMark(server string) string {
	sum := sha256.Sum256([]byte(server))
	return hex.EncodeToString(sum[:4])
}

// SaveRequest writes the record of a request whole or not at all.
func (s Store) SaveRequest(o Request) error {
	if err := home.WriteRecord(s.RequestPath(o.Server, o.Name), format(), o); err != nil {
		return fmt.Errorf("record of request %s: %w", o.Name, err)
	}
	return nil
}

// LoadRequest reads a record; the error wraps [fs.ErrNotExist] if there is none.
func (s Store) LoadRequest(server, name string) (Request, error) {
	var o Request
	if err := csr.ValidName(name); err != nil { // the name becomes a file's
		return o, err
	}
	return o, s.readRequest(s.RequestPath(server, name), &o)
}

func (s Store) readRequest(path string, to *Request) error {
	b, err := home.ReadFile(path, record.MaxSize, nil)
	if err == nil {
		err = format().Decode(b, to)
	}
	if err != nil {
		return fmt.Errorf("record of a request: %w", err)
	}
	return nil
}

// endedKept is how long a cluster keeps a request that has ended.
const endedKept = time.Hour

// Requests are the records of what was filed with the cluster at server, and
// what enrollments have filed that are unfinished, or were finished within the last hour.
func (s Store) Requests(server string) ([]Request, error) {
	names, err := record.Names(s.requestsDir())
	if err != nil {
		return nil, fmt.Errorf("records of requests: %w", err)
	}
	var all []Request
	for _, name := range names {
		if !strings.HasSuffix(name, "@"+serverMark(server)) {
			continue
		}
		var o Request
		if err := s.readRequest(filepath.Join(s.requestsDir(), name+".json"), &o); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	begun, err := s.All()
	if err != nil {
		return nil, err
	}
	for _, j := range begun {
		over := j.Finished() && time.Since(j.Updated) > endedKept
		if j.Request.Name == "" || over || j.Cluster.Server != server {
			continue
		}
		all = append(all, j.Request)
	}
	return all, nil
}
