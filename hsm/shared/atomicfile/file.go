// Package atomicfile replaces files in one step: after a crash there is the old file
// or the new one, whole. Everybody may import it.
//
// It is done by hand rather than by github.com/google/renameio because that package
// leaves Windows out, and this is all that is needed of it.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// File is what will take its target's place.
type File struct {
	temp   *os.File
	target string
}

// Create makes an empty file beside target, mode 0600, whose name [os.CreateTemp]
// makes of pattern. The caller ends it with Commit or Discard.
func Create(target, pattern string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(target), pattern) // 0600 from the start
	if err != nil {
		return nil, err
	}
	return &File{temp: f, target: target}, nil
}

// Write writes all data and brings them to the disk. Settle, if not nil, gives the
// file its owner and mode before that.
func (f *File) Write(data []byte, settle func(*os.File) error) error {
	_, err := f.temp.Write(data)
	if err == nil && settle != nil {
		err = settle(f.temp)
	}
	if err == nil {
		err = f.temp.Sync()
	}
	return errors.Join(err, f.temp.Close())
}

// Target is the file that is replaced.
func (f *File) Target() string { return f.target }

// Commit puts the written file in its target's place.
func (f *File) Commit() error {
	return os.Rename(f.temp.Name(), f.target)
}

// Overwrite is Commit for a target that nothing can take the place of, such as a mount: it writes the target in place.
// A reader may see a part of that. A copy of the target as it was is at the path before meanwhile, which must not
// exist; it stays if the target could be neither written nor restored.
func (f *File) Overwrite(before string) error {
	data, err := os.ReadFile(f.temp.Name())
	if err != nil {
		return err
	}
	old, err := os.ReadFile(f.target)
	if err != nil {
		return err
	}
	keep, err := os.OpenFile(before, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := fill(keep, old); err != nil {
		return errors.Join(err, os.Remove(before))
	}
	if err := f.overwrite(data); err != nil {
		if f.overwrite(old) != nil {
			return fmt.Errorf("%w; the file as it was is at %s", err, before)
		}
		return errors.Join(err, os.Remove(before))
	}
	return errors.Join(os.Remove(before), f.Discard())
}

func (f *File) overwrite(data []byte) error {
	target, err := os.OpenFile(f.target, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return fill(target, data)
}

// fill makes data the content of file, brings it to the disk and closes the file.
func fill(file *os.File, data []byte) error {
	_, err := file.Write(data)
	if err == nil {
		err = file.Truncate(int64(len(data)))
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Sync brings the folder's new state to the disk, after Commit.
func (f *File) Sync() error { return SyncDir(filepath.Dir(f.target)) }

// Discard removes what was written, if it has not taken its target's place.
func (f *File) Discard() error {
	if err := os.Remove(f.temp.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Replace gives the file at path the content data, mode 0600. The folder must exist;
// pattern is as for [Create].
func Replace(path, pattern string, data []byte) error {
	f, err := Create(path, pattern)
	if err != nil {
		return err
	}
	if err = f.Write(data, nil); err == nil {
		err = f.Commit()
	}
	if err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.Sync()
}
