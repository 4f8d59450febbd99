// Package regularfile opens and reads files that another program may have named, or put in
// the place of ours. What is no regular file is refused: a pipe that nobody writes to would
// keep its reader, and some devices act when they are opened. Everybody may import it.
package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// ErrOther says that a path leads to something else than a regular file.
var ErrOther = errors.New("not a regular file")

// Open is [os.OpenFile], with mode 0600 for a new file, and does not wait. Errors: [ErrOther],
// or the file system's.
func Open(path string, flag int) (f *os.File, info fs.FileInfo, err error) {
	if info, err = os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %w", path, ErrOther)
	}
	if f, err = os.OpenFile(path, flag|syscall.O_NONBLOCK, 0o600); err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrOther)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// Read reads the file at path, which has at most most bytes. Errors are those of [Open].
func Read(path string, most int64) ([]byte, error) {
	f, info, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Rest(f, info, most, nil)
}

// Rest reads the file f, which has at most most bytes, into the room of buf, which may be nil.
func Rest(f *os.File, info fs.FileInfo, most int64, buf []byte) ([]byte, error) {
	size := info.Size()
	if int64(cap(buf)) <= size && size <= most {
		buf = make([]byte, 0, size+512)
	}
	r := io.LimitedReader{R: f, N: most + 1}
	for buf = buf[:0]; ; buf = slices.Grow(buf, 1) {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > most:
			return nil, fmt.Errorf("%s is larger than %d bytes", f.Name(), most)
		case errors.Is(err, io.EOF), err == nil && int64(len(buf)) == size: // the file is as it was just now
			return buf, nil
		case err != nil:
			return nil, err
		}
	}
}
