package kubeconfig

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
)

// KeepSteps is how many steps a journal keeps; older ones are removed.
const KeepSteps = 100

// Journal records what Apply did, so that it can be taken back. Its records
// hold the replaced lines, and with them any secret that stood there: the
// folder is made 0700, the files 0600.
type Journal struct {
	Dir string // absolute; made when needed
}

// Step is one applied plan.
type Step struct {
	ID    string    // sorts by the order in which steps were made
	Time  time.Time // UTC
	Title string    // the plan's title
	Name  string    // the entry's name
	Files []string  // absolute paths
	Done  bool      // false: the process died before it had renamed every file
}

// stepRecord is a step on disk.
type stepRecord struct {
	Version int          `json:"version"`
	Time    time.Time    `json:"time"`
	Title   string       `json:"title"`
	Name    string       `json:"name"`
	Done    bool         `json:"done"`
	Files   []fileRecord `json:"files"`
}

type fileRecord struct {
	Path    string   `json:"path"`
	Existed bool     `json:"existed"`
	Removed bool     `json:"removed,omitempty"`
	Before  string   `json:"before"` // sha256
	After   string   `json:"after"`
	Undo    []splice `json:"undo"` // from after to before
	Edits   []edit   `json:"edits"`
	Reverse []edit   `json:"reverse"`
	Raw     [][]byte `json:"raw"` // original text for Reverse
}

var stepID = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{9}Z$`)

const stepTime = "20060102T150405.000000000Z"

// History lists the steps, newest first. A journal that does not exist yet is
// empty.
func (j *Journal) History(ctx context.Context) ([]Step, error) {
	ids, err := j.ids()
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, id := range slices.Backward(ids) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := j.load(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned by another process
		}
		if err != nil {
			return nil, err
		}
		steps = append(steps, r.step(id))
	}
	return steps, nil
}

func (r *stepRecord) step(id string) Step {
	s := Step{ID: id, Time: r.Time, Title: r.Title, Name: r.Name, Done: r.Done}
	for _, f := range r.Files {
		s.Files = append(s.Files, f.Path)
	}
	return s
}

func (j *Journal) ids() ([]string, error) {
	ids, err := record.Names(j.Dir)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig journal: %w", err)
	}
	return slices.DeleteFunc(ids, func(id string) bool { return !stepID.MatchString(id) }), nil
}

func (j *Journal) path(id string) string { return filepath.Join(j.Dir, id+".json") }

func (j *Journal) load(id string) (*stepRecord, error) {
	data, err := regularfile.Read(j.path(id), 2*MaxFile)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig journal: %w", err)
	}
	var r stepRecord
	if err := decodeJSON(data, &r); err != nil {
		return nil, fmt.Errorf("read the kubeconfig journal: %s: %w", j.path(id), err)
	}
	if r.Version != 1 {
		return nil, fmt.Errorf("read the kubeconfig journal: %s: unknown version %d", j.path(id), r.Version)
	}
	for i := range r.Files {
		f := &r.Files[i]
		if len(f.Raw) != len(f.Reverse) {
			return nil, fmt.Errorf("read the kubeconfig journal: %s: incomplete", j.path(id))
		}
		for k := range f.Reverse {
			f.Reverse[k].raw = f.Raw[k]
		}
	}
	return &r, nil
}

// begin writes the record of p before any file is renamed.
func (j *Journal) begin(p *Plan) (Step, *stepRecord, error) {
	now := time.Now().UTC()
	r, err := newRecord(p, now)
	if err != nil {
		return Step{}, nil, err
	}
	id := now.Format(stepTime)
	if j == nil {
		return r.step(id), r, nil
	}
	if err := os.MkdirAll(j.Dir, 0o700); err != nil {
		return Step{}, nil, fmt.Errorf("write the kubeconfig journal: %w", err)
	}
	if id, err = j.next(now); err != nil {
		return Step{}, nil, err
	}
	return r.step(id), r, j.save(id, r)
}

// next is the id of a step that begins now. It sorts after those there are, also where
// the clock was put back since, or another process took the same nanosecond.
func (j *Journal) next(now time.Time) (string, error) {
	ids, err := j.ids()
	if err != nil || len(ids) == 0 {
		return now.Format(stepTime), err
	}
	last, err := time.Parse(stepTime, ids[len(ids)-1])
	if err != nil {
		return "", fmt.Errorf("write the kubeconfig journal: %w", err)
	}
	if !now.After(last) {
		now = last.Add(1)
	}
	return now.Format(stepTime), nil
}

// finish marks the step as done and removes the oldest ones.
func (j *Journal) finish(id string, r *stepRecord) error {
	if j == nil {
		return nil
	}
	r.Done = true
	if err := j.save(id, r); err != nil {
		return err
	}
	ids, err := j.ids()
	if err != nil {
		return err
	}
	for _, id := range ids[:max(0, len(ids)-KeepSteps)] {
		if err := os.Remove(j.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("prune the kubeconfig journal: %w", err)
		}
	}
	return j.sweep()
}

// sweep removes what killed processes left half-written; other processes may
// be writing now.
func (j *Journal) sweep() error {
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		return fmt.Errorf("prune the kubeconfig journal: %w", err)
	}
	for _, e := range entries {
		if e.Name()[0] != '.' || !strings.Contains(e.Name(), tempMark) {
			continue
		}
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > time.Hour {
			err = os.Remove(filepath.Join(j.Dir, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("prune the kubeconfig journal: %w", err)
		}
	}
	return nil
}

// drop removes the record of a step that did not happen.
func (j *Journal) drop(s Step) error {
	if j == nil {
		return nil
	}
	return os.Remove(j.path(s.ID))
}

func (j *Journal) save(id string, r *stepRecord) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w, err := prepare(j.path(id), append(data, '\n'))
	if err == nil {
		err = commit(w)
	}
	if err != nil {
		return fmt.Errorf("kubeconfig journal: %w", err)
	}
	return nil
}

func newRecord(p *Plan, at time.Time) (*stepRecord, error) {
	r := &stepRecord{Version: 1, Time: at, Title: p.Title, Name: p.Name}
	for _, f := range p.files {
		path, err := filepath.Abs(f.path)
		if err != nil {
			return nil, err
		}
		fr := fileRecord{Path: path, Existed: f.exists, Removed: f.remove, Before: digest(f.data), After: digest(f.after),
			Undo: inverse(f.data, f.splices), Edits: f.edits, Reverse: f.reverse}
		for _, e := range f.reverse {
			fr.Raw = append(fr.Raw, e.raw)
		}
		r.Files = append(r.Files, fr)
	}
	return r, nil
}

// inverse are the splices that lead back to before.
func inverse(before []byte, splices []splice) []splice {
	var out []splice
	shift := 0
	for _, s := range splices {
		start := s.Start + shift
		out = append(out, splice{start, start + len(s.Text), bytesOf(before, s)})
		shift += len(s.Text) - (s.End - s.Start)
	}
	return out
}

func bytesOf(data []byte, s splice) []byte { return slices.Clone(data[s.Start:s.End]) }

func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
