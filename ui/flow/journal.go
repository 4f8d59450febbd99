package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Journal records how far an enrolment is, before and after each thing that
// cannot be repeated, so that it resumes after an unplugged token, a closed
// laptop or an approval that takes a day. It holds nothing secret.
type Journal struct {
	Options EnrollOptions `json:"options"`
	// Cluster is the API server's endpoint, and Namespace the one that commands
	// act on, both as read from the source context.
	Cluster   enrollment.Cluster `json:"cluster"`
	Namespace string             `json:"namespace,omitempty"`
	// Generating is set before a key is generated, with the fingerprints of the
	// keys that were in its place then (Before): another one found there
	// afterwards is ours.
	Generating bool     `json:"generating,omitempty"`
	Before     []string `json:"before,omitempty"`
	// Key and KeyHash name the key once it exists.
	Key     hsm.URI `json:"key,omitzero"`
	KeyHash string  `json:"keyHash,omitempty"`
	// RequestName and Request are recorded before the request is filed, UID after.
	RequestName string `json:"requestName,omitempty"`
	Request     []byte `json:"request,omitempty"`
	RequestUID  string `json:"requestUID,omitempty"`
	// Told is the UID of the last request whose denial, or refusal by the signer, a run
	// has reported.
	Told string `json:"told,omitempty"`
	// Certificate is the issued chain, PEM, leaf first.
	Certificate []byte `json:"certificate,omitempty"`
	// Rejected: the API server did not accept Certificate.
	Rejected bool      `json:"rejected,omitempty"`
	Done     []Step    `json:"done"`
	Updated  time.Time `json:"updated"`
}

// did tells whether step s was finished.
func (j *Journal) did(s Step) bool { return slices.Contains(j.Done, s) }

func (j *Journal) mark(s Step) {
	if !j.did(s) {
		j.Done = append(j.Done, s)
	}
}

// unmark forgets that s and all later steps were done.
func (j *Journal) unmark(s Step) {
	steps := j.Options.Steps()
	from := slices.Index(steps, s)
	j.Done = slices.DeleteFunc(j.Done, func(d Step) bool { return slices.Index(steps, d) >= from })
}

// Finished tells whether nothing is left to do.
func (j *Journal) Finished() bool { return j.did(StepVerify) && j.did(StepKubeconfig) }

func (e *Env) journalDir() string { return filepath.Join(e.Dirs.State, "enrolling") }

// Store keeps the records of what was begun here: enrolments and requests.
type Store struct{ env *env.Env }

// NewStore returns the records in the folders of e.
func NewStore(e *env.Env) Store { return Store{env: e} }

func (s Store) path(name string) string {
	return filepath.Join(s.env.ProgressDir(), name+".json")
}

// Save writes j whole or not at all.
func (s Store) Save(j *Journal) error {
	j.Updated = time.Now().UTC().Truncate(time.Second)
	b, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("enrolment record: %w", err)
	}
	if err := home.WriteFile(s.path(j.Options.Name), append(b, '\n')); err != nil {
		return fmt.Errorf("enrolment record: %w", err)
	}
	return nil
}

// Load reads the record of the enrolment called name. The error wraps
// [fs.ErrNotExist] if there is none.
func (s Store) Load(name string) (*Journal, error) {
	if err := enrollment.ValidName(name); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(s.path(name))
	if err != nil {
		return nil, fmt.Errorf("enrolment record: %w", err)
	}
	var j Journal
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, hsm.Hintf(fmt.Errorf("enrolment record %s: %w", s.path(name), err),
			"remove it and enrol again; the key on the token can be reused with --key")
	}
	return &j, nil
}

// Unfinished lists the enrolments that were begun and not finished, the latest first.
func (s Store) Unfinished(ctx context.Context) ([]Journal, error) {
	all, err := s.All()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(j Journal) bool { return j.Finished() })
	sort.Slice(all, func(a, b int) bool { return all[a].Updated.After(all[b].Updated) })
	return all, ctx.Err()
}

// All reads all records.
func (s Store) All() ([]Journal, error) {
	entries, err := os.ReadDir(s.env.ProgressDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("enrolment records: %w", err)
	}
	var all []Journal
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".json")
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		j, err := s.Load(name)
		if err != nil {
			return nil, err
		}
		all = append(all, *j)
	}
	return all, nil
}
