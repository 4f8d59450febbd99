package kubeconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kubehsm/kubehsm/hsm/shared/atomicfile"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Apply writes the plan, all files or none: it takes client-go's locks (waiting
// up to [LockWait]), reads every file again, announces the change in dir and
// renames the new files into place. An empty plan writes nothing, but removes
// what a process that was killed has left: its lock would keep kubectl from the file.
//
// Errors wrap [ErrChanged] (plan again), [ErrLocked] (a [LockError]),
// [ErrReadOnly] or what the system said; the files are then as they were. The
// exception is an error after the last rename, to release a lock say: the change is made.
func (p *Plan) Apply(ctx context.Context, dir Backups) (err error) {
	if p.Empty() {
		return p.tidy()
	}
	var paths []string
	for _, f := range p.files {
		paths = append(paths, f.path)
		if err := makeFolder(f.path); err != nil {
			return err
		}
	}
	release, err := lockAll(ctx, paths)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	p.at("locked")
	if err := p.unchanged(); err != nil {
		return err
	}
	return p.write(ctx, dir)
}

// Writable is the error with which [Plan.Apply] would refuse to write ([ErrReadOnly]), as far
// as that can be told beforehand, or nil.
func (p *Plan) Writable() error {
	for _, f := range p.files {
		if err := canWrite(f.path); err != nil {
			return err
		}
	}
	return nil
}

// tidy removes the locks, and what lies beside the files half-written, of kubehsm's
// processes that have died.
func (p *Plan) tidy() error {
	for _, s := range p.sources {
		for _, name := range lockNames(s.path) {
			info, err := os.Lstat(name)
			if err != nil {
				continue // As a rule, no lock is there.
			}
			f, _, err := takeOver(name, info, false)
			if isReadOnlyFS(err) {
				continue // a lock file on a read-only file system is harmless
			}
			if err == nil && f != nil {
				err = errors.Join(sweep(s.path), heldLock{name, f}.release())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// makeFolder makes the folder of path's target, for the user alone.
func makeFolder(path string) error {
	target, err := targetOf(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(target), 0o700)
	}
	if err == nil && target != path {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return denied(fmt.Errorf("write kubeconfig: %w", err), filepath.Dir(path))
	}
	return nil
}

// unchanged compares every file that the plan rests on.
func (p *Plan) unchanged() error {
	for _, s := range p.sources {
		now, err := readSource(s.path)
		if err != nil {
			return err
		}
		if now.exists != s.exists || !bytes.Equal(now.data, s.data) {
			return hint.Withf(fmt.Errorf("%s: %w", s.path, ErrChanged), "look at the new difference and try again")
		}
	}
	return nil
}

// write does the work under the locks.
func (p *Plan) write(ctx context.Context, dir Backups) (err error) {
	var ready []*atomicfile.File
	done := 0
	defer func() {
		for _, r := range ready[done:] {
			err = errors.Join(err, r.Discard())
		}
	}()
	for _, f := range p.files {
		if err := sweep(f.path); err != nil {
			return err
		}
		if f.remove {
			continue
		}
		r, err := prepare(f.path, f.after)
		if err != nil {
			return err
		}
		ready = append(ready, r)
		p.at("prepared")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := dir.announce(p); err != nil {
		return errors.Join(err, dir.withdraw(p))
	}
	p.at("announced")
	for i := range ready {
		if err := commit(ready[i]); err != nil {
			return errors.Join(err, p.rollBack(ready[:i+1]), dir.withdraw(p))
		}
		done++
		p.at("renamed")
	}
	for _, f := range p.files {
		if f.remove {
			target, err := targetOf(f.path)
			if err == nil {
				err = os.Remove(target)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return denied(fmt.Errorf("remove kubeconfig: %w", err), f.path)
			}
		}
	}
	p.at("written")
	return dir.confirm(p)
}

// rollBack restores the files that were renamed before one could not be.
func (p *Plan) rollBack(renamed []*atomicfile.File) error {
	var errs []error
	for _, r := range renamed {
		i := slices.IndexFunc(p.files, func(f *fileEdit) bool {
			t, err := targetOf(f.path)
			return err == nil && t == r.Target()
		})
		if i < 0 {
			continue
		}
		now, err := readSource(r.Target())
		switch f := p.files[i]; {
		case err != nil:
			errs = append(errs, err)
		case now.exists == f.exists && bytes.Equal(now.data, f.data): // not renamed after all
		case !f.exists:
			errs = append(errs, os.Remove(r.Target()))
		default:
			old, err := prepare(r.Target(), f.data)
			if err == nil {
				err = commit(old)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p *Plan) at(step string) {
	if p.fault != nil {
		p.fault(step)
	}
}
