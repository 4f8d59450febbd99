package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// tempMark is in the names of what is not finished yet; digits follow.
const tempMark = ".tmp-"

// TempName is the pattern of a temporary file's or folder's name for
// [os.CreateTemp] and [os.MkdirTemp], by which [Sweep] knows it.
func TempName(name string) string { return "." + name + tempMark }

// sweptAfter is the age from which something unfinished is nobody's any more.
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
//
// It is done by hand rather than by github.com/google/renameio because that
// package leaves Windows out, and this is all that is needed of it.
func WriteFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), TempName(filepath.Base(path))) // 0600 from the start
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// syncDir makes a rename in dir last. Windows cannot sync folders.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
