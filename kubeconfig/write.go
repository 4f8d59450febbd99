package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm/shared/atomicfile"
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

// tempMark is in the names of our temporary files.
const tempMark = ".kubehsm-"

// tempPrefix begins the names of our temporary files of one kubeconfig.
func tempPrefix(target string) string { return "." + filepath.Base(target) + tempMark }

// asItWas is the copy of target as it was, while that is written in place.
func asItWas(target string) string {
	return filepath.Join(filepath.Dir(target), tempPrefix(target)+"before")
}

// isWhole is an error if the file was being written in place when the program was killed, or the computer lost its power.
func isWhole(target string) error {
	if _, err := os.Lstat(asItWas(target)); err != nil {
		return nil //nolint:nilerr // there is no copy, or nothing can be made in that folder, which is said then
	}
	return hint.Withf(fmt.Errorf("write kubeconfig: %s may be damaged, as writing it was interrupted", target),
		"compare it with %s, which is as it was before; then remove that", shell.Quote(asItWas(target)))
}

// prepare writes data beside path's target, with the target's mode, owner and
// attributes, and brings it to the disk.
func prepare(path string, data []byte) (*atomicfile.File, error) {
	target, err := targetOf(path)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	info, err := os.Stat(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := isWhole(target); err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o600)
	if info != nil {
		if !info.Mode().IsRegular() { // a rename would replace the null device, for instance
			return nil, hint.Withf(fmt.Errorf("write kubeconfig: %s: not a regular file", target),
				"name a file with --kubeconfig or KUBECONFIG")
		}
		mode = info.Mode().Perm()
		if err := writable(target, mode); err != nil {
			return nil, err
		}
	}
	f, err := atomicfile.Create(target, tempPrefix(target))
	if err != nil {
		return nil, denied(fmt.Errorf("write kubeconfig: %w", err), filepath.Dir(target))
	}
	err = f.Write(data, func(f *os.File) error {
		if info != nil {
			if err := keepOwner(f, info); err != nil { // the owner before the mode: chown may clear bits
				return err
			}
			if mode, err = keepAttributes(f, target, mode); err != nil {
				return err
			}
		}
		return f.Chmod(mode)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write kubeconfig: %w", err), f.Discard())
	}
	return f, nil
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

// canWrite is the error with which [prepare], or the lock before it, would refuse path, as far
// as that can be told beforehand.
func canWrite(path string) error {
	target, err := targetOf(path)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := isWhole(target); err != nil {
		return err
	}
	if info, err := os.Stat(target); err == nil && info.Mode().IsRegular() {
		if err := writable(target, info.Mode().Perm()); err != nil {
			return err
		}
	}
	for _, path := range []string{path, target} { // the lock is beside the first, the new file beside the other
		dir := filepath.Dir(path)
		for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		if err := takesFiles(dir); err != nil {
			return denied(fmt.Errorf("write kubeconfig in %s: %w", dir, err), dir)
		}
	}
	return nil
}

// commit puts the file in its place. A file that is a mount of its own, as in containers, cannot be replaced and is
// written in place.
func commit(f *atomicfile.File) error {
	err := f.Commit()
	if errors.Is(err, syscall.EBUSY) {
		err = f.Overwrite(asItWas(f.Target()))
	}
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return f.Sync()
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
