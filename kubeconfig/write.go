package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// modeMatters is false where the system has no permission bits.
const modeMatters = runtime.GOOS != "windows"

// targetOf follows path's symbolic links to the file that is to be replaced,
// existing or not.
func targetOf(path string) (string, error) {
	for range 40 {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s: too many symbolic links", path)
}

// replacement is a file written beside its target, ready to take its place.
type replacement struct {
	temp, target string
}

// tempMark is in the names of our temporary files.
const tempMark = ".kubehsm-"

// tempPrefix begins the names of our temporary files of one kubeconfig.
func tempPrefix(target string) string { return "." + filepath.Base(target) + tempMark }

// prepare writes data beside path's target, with the target's mode and owner,
// and brings it to the disk.
func prepare(path string, data []byte) (r replacement, err error) {
	target, err := targetOf(path)
	if err != nil {
		return r, fmt.Errorf("write kubeconfig: %w", err)
	}
	info, err := os.Stat(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("write kubeconfig: %w", err)
	}
	mode := fs.FileMode(0o600)
	if info != nil {
		if !info.Mode().IsRegular() { // it would no longer be what it is for others, such as the null device
			return r, hint.Withf(fmt.Errorf("write kubeconfig: %s: not a regular file", target), "name a file with --kubeconfig or KUBECONFIG")
		}
		mode = info.Mode().Perm()
		if err := writable(target, mode); err != nil {
			return r, err
		}
	}
	f, err := os.CreateTemp(filepath.Dir(target), tempPrefix(target))
	if err != nil {
		return r, denied(fmt.Errorf("write kubeconfig: %w", err), filepath.Dir(target))
	}
	r = replacement{temp: f.Name(), target: target}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write kubeconfig: %w", err), r.discard())
		}
	}()
	if _, err = f.Write(data); err == nil && info != nil {
		err = keepOwner(f, info) // before the mode: chown may clear bits
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return r, errors.Join(err, f.Close())
}

// writable refuses to replace what the user has made read-only: a rename would
// not ask.
func writable(path string, mode fs.FileMode) error {
	err := error(&fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission})
	if mode&0o200 != 0 {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			return f.Close()
		}
	}
	return denied(fmt.Errorf("write kubeconfig: %w", err), path)
}

// commit puts the file in its place.
func (r replacement) commit() error {
	if err := os.Rename(r.temp, r.target); err != nil {
		err = fmt.Errorf("write kubeconfig: %w", err)
		return hint.Withf(err, "is %s a mount of its own? name another file with --kubeconfig", shell.Quote(r.target))
	}
	return syncDir(filepath.Dir(r.target))
}

func (r replacement) discard() error {
	if err := os.Remove(r.temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweep removes temporary files of ours that a killed process left beside path.
// The caller holds the file's lock, so that nobody is writing one.
func sweep(path string) error {
	target, err := targetOf(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(target)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		named := strings.TrimRight(e.Name(), "0123456789") // the name without its random digits
		if named != tempPrefix(target) || named == e.Name() || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && !isMine(info) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an unfinished file: %w", err)
		}
	}
	return nil
}
