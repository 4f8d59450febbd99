package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/atomicfile"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
)

// tempMark is in the names of unfinished files, followed by digits.
const tempMark = ".tmp-"

// TempName is the pattern of a temporary file's or folder's name for
// [os.CreateTemp] and [os.MkdirTemp], by which [Sweep] knows it.
func TempName(name string) string { return "." + name + tempMark }

// sweptAfter is the age at which an unfinished file is certainly abandoned.
const sweptAfter = time.Hour

// Sweep removes what killed processes have left unfinished in the folder dir, one
// of ours, and in the folders in it: files and folders of this user, named by
// [TempName], an hour old.
func Sweep(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process has removed it
		}
		if err != nil {
			return err
		}
		named := strings.TrimRight(e.Name(), "0123456789")
		if named == e.Name() || !strings.HasPrefix(named, ".") || !strings.HasSuffix(named, tempMark) {
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) < sweptAfter {
			return nil
		}
		if err != nil {
			return err
		}
		check, remove := CheckFile, os.Remove
		if e.IsDir() {
			check, remove = MakeDir, os.RemoveAll
		}
		if ours := check(path) == nil; ours {
			err = remove(path)
		}
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case e.IsDir():
			return fs.SkipDir
		}
		return nil
	})
}

// WriteFile replaces the file at path with data, mode 0600, in one step: after
// a crash it is the old file or the new one, whole. The folder must exist.
func WriteFile(path string, data []byte) error {
	if err := atomicfile.Replace(path, TempName(filepath.Base(path)), data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// WriteRecord replaces the record at path, one of a kind that is written in the
// format f, with v; it makes the folder if need be. A record that a later version of
// the program wrote stays: [record.ErrNewer].
func WriteRecord(path string, f record.Format, v any) error {
	data, err := record.Encode(v)
	if err == nil {
		err = MakeDir(filepath.Dir(path))
	}
	if err == nil {
		err = f.Replaceable(path)
	}
	if err != nil {
		return err
	}
	return WriteFile(path, data)
}
