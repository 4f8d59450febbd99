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
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
)

// Backups is the folder with what takes the last change of each kubeconfig file back; "" keeps
// nothing. It holds the replaced lines, and with them any secret that stood there: the folder is
// made 0700, the files 0600.
//
// A change is announced before the file is renamed, in a file of its own, and that takes the place
// of the backup once the file is there. So a process that is killed leaves the way back from
// the change before.
type Backups string

// backup leads from a kubeconfig file as a change left it to what the file was before.
type backup struct {
	Version int      `json:"version"`
	Path    string   `json:"path"`
	Change  int64    `json:"change"` // number of the change, in order; it may be of several files
	Existed bool     `json:"existed"`
	Removed bool     `json:"removed,omitempty"`
	Before  string   `json:"before"` // sha256
	After   string   `json:"after"`
	Undo    []splice `json:"undo"` // from after to before
}

// place is where the backup of a kubeconfig file is, and a change of it is announced.
func (dir Backups) place(path string) (last, announced string, err error) {
	target, err := targetOf(path)
	if err == nil {
		target, err = filepath.Abs(target)
	}
	name := filepath.Join(string(dir), digest([]byte(target))[:32])
	return name + ".json", name + ".next.json", err
}

// of is the backup of a file as it is now, nil if there is none. An announced change counts if it came to be.
func (dir Backups) of(now source) (*backup, error) {
	last, announced, err := dir.place(now.path)
	if err != nil {
		return nil, err
	}
	b, err := readBackup(announced)
	if err != nil || b != nil && !b.isBefore(now) {
		return b, err
	}
	return readBackup(last)
}

func readBackup(path string) (*backup, error) {
	data, err := regularfile.Read(path, 2*MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig's backup: %w", err)
	}
	b := &backup{}
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("read the kubeconfig's backup: %s: %w", path, err)
	}
	if b.Version != 1 {
		return nil, fmt.Errorf("read the kubeconfig's backup: %s: unknown version %d", path, b.Version)
	}
	return b, nil
}

func (b *backup) isBefore(now source) bool {
	return now.exists == b.Existed && digest(now.data) == b.Before
}

func (b *backup) isAfter(now source) bool {
	return now.exists == !b.Removed && digest(now.data) == b.After
}

// announce writes, under the files' locks, what takes p back.
func (dir Backups) announce(p *Plan) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return fmt.Errorf("write the kubeconfig's backup: %w", err)
	}
	change := time.Now().UnixNano()
	for _, s := range p.sources { // the clock may have been put back since their changes
		if b, err := dir.of(s); err == nil && b != nil {
			change = max(change, b.Change+1)
		}
	}
	for _, f := range p.files {
		last, announced, err := dir.place(f.path)
		if err != nil {
			return err
		}
		if b, err := readBackup(announced); err == nil && b != nil && b.isAfter(f.source) {
			if err := os.Rename(announced, last); err != nil { // its process was killed
				return fmt.Errorf("write the kubeconfig's backup: %w", err)
			}
		}
		b := &backup{Version: 1, Path: f.path, Change: change, Existed: f.exists, Removed: f.remove,
			Before: digest(f.data), After: digest(f.after), Undo: inverse(f.data, f.splices)}
		if err := b.write(announced); err != nil {
			return fmt.Errorf("write the kubeconfig's backup: %w", err)
		}
	}
	return nil
}

func (b *backup) write(path string) error {
	data, err := json.Marshal(b)
	if err == nil {
		err = sweep(path)
	}
	if err != nil {
		return err
	}
	f, err := prepare(path, append(data, '\n'))
	if err != nil {
		return err
	}
	return commit(f)
}

// confirm makes what was announced the backups of p's files.
func (dir Backups) confirm(p *Plan) error { return dir.settle(p, os.Rename) }

// withdraw removes what was announced.
func (dir Backups) withdraw(p *Plan) error {
	return dir.settle(p, func(announced, _ string) error {
		if err := os.Remove(announced); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

func (dir Backups) settle(p *Plan, do func(announced, last string) error) error {
	if dir == "" {
		return nil
	}
	var errs []error
	for _, f := range p.files {
		last, announced, err := dir.place(f.path)
		if err == nil {
			err = do(announced, last)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write the kubeconfig's backup: %w", err)
	}
	return nil
}

// PlanUndo works out how the files of the rules become what they were before the last change
// that was applied with the same backups. The result is a plan like any other: it can
// be shown, applied, and undone in turn.
//
// The files become byte for byte what they were, and one that the change made is removed. Files that
// a killed process never wrote are left alone. The error wraps [ErrNoBackup] if there is no
// change to undo, and [ErrConflict] if a file was changed since.
func (r Rules) PlanUndo(ctx context.Context, dir Backups) (*Plan, error) {
	sources, err := r.readAll()
	if err != nil {
		return nil, err
	}
	backups := make([]*backup, len(sources))
	var last int64
	for i, s := range sources {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if backups[i], err = dir.of(s); err != nil {
			return nil, err
		}
		if b := backups[i]; b != nil {
			last = max(last, b.Change)
		}
	}
	if last == 0 {
		return nil, hint.Withf(ErrNoBackup, "name the file that kubehsm changed with --kubeconfig")
	}
	p := &Plan{sources: sources}
	restored := map[string]bool{} // a file may have two names
	for i, b := range backups {
		if b == nil || b.Change != last || restored[b.Path] {
			continue
		}
		restored[b.Path] = true
		f, err := b.undo(sources[i])
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	return p, nil
}

// undo is the change that restores the file.
func (b *backup) undo(now source) (*fileEdit, error) {
	if !b.isAfter(now) {
		return nil, hint.Withf(fmt.Errorf("%s: %w", now.path, ErrConflict),
			"edit the file by hand, or write the entry again with kubehsm kubeconfig set")
	}
	damaged := fmt.Errorf("%s: %w: the backup is damaged", now.path, ErrConflict)
	for i, s := range b.Undo {
		if s.Start < 0 || s.End < s.Start || s.End > len(now.data) || i > 0 && s.Start < b.Undo[i-1].End {
			return nil, damaged
		}
	}
	f := &fileEdit{source: now, after: applySplices(now.data, b.Undo), splices: b.Undo, remove: !b.Existed}
	if digest(f.after) != b.Before {
		return nil, damaged
	}
	return f, nil
}

// inverse are the splices that lead back to before.
func inverse(before []byte, splices []splice) []splice {
	var out []splice
	shift := 0
	for _, s := range splices {
		start := s.Start + shift
		out = append(out, splice{start, start + len(s.Text), slices.Clone(before[s.Start:s.End])})
		shift += len(s.Text) - (s.End - s.Start)
	}
	return out
}

func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
