package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/plugin/home"
)

// The default bounds: about 15,000 records a file.
const (
	maxSize = 4 << 20
	keep    = 7
)

// maxLine bounds a record in bytes; ours are a few hundred.
const maxLine = 16 << 10

// Path is where the record of these folders is.
func Path(d home.Dirs) string { return filepath.Join(d.State, "audit.log") }

// Log writes records. The agent keeps it open.
type Log struct {
	path    string
	maxSize int64
	keep    int
	now     func() time.Time

	mu      sync.Mutex
	f       *os.File
	size    int64
	repeats map[kind]*window
}

// Open opens the log at path for appending and creates it, mode 0600, if there
// is none. A line that a crash has left unfinished is ended.
func Open(path string) (*Log, error) {
	l := &Log{path: path, maxSize: maxSize, keep: keep, now: time.Now, repeats: map[kind]*window{}}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return l, nil
}

// open is called with l.mu held, or before l is shared.
func (l *Log) open() error {
	f, _, err := home.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	size, err := endLine(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.size = f, size
	return nil
}

// endLine makes sure that f ends with a whole line, and returns its size.
func endLine(f *os.File) (int64, error) {
	if err := f.Chmod(0o600); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil || last[0] == '\n' {
		return info.Size(), err
	}
	_, err = f.Write([]byte{'\n'})
	return info.Size() + 1, err
}

// Write appends a record. Its Time is set if it is zero.
func (l *Log) Write(r Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(r)
}

func (l *Log) write(r Record) error {
	if r.Time.IsZero() {
		r.Time = l.now()
	}
	r.Time = r.Time.UTC().Truncate(time.Microsecond)
	b, err := json.Marshal(r)
	if err == nil && len(b) >= maxLine {
		err = fmt.Errorf("a record of %d bytes", len(b))
	}
	if err == nil {
		err = l.append(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

func (l *Log) append(line []byte) error {
	if l.f == nil { // a rotation has failed half-way; try again
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.size > 0 && l.size+int64(len(line)) > l.maxSize {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	n, err := l.f.Write(line)
	l.size += int64(n)
	if err != nil && n > 0 { // a full disk: the next line must not begin in this one
		err = errors.Join(err, l.cut(n))
	}
	return err
}

// cut removes the last n bytes. It asks the file for its length, because other processes append
// too.
func (l *Log) cut(n int) error {
	l.size -= int64(n)
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	return l.f.Truncate(info.Size() - int64(n))
}

// rotate renames each file to the next number, drops the oldest, and begins a new one.
func (l *Log) rotate() error {
	err := errors.Join(l.f.Sync(), l.f.Close())
	l.f = nil
	if err != nil {
		return err
	}
	for i := l.keep; i > 0; i-- {
		if err := os.Rename(numbered(l.path, i-1), numbered(l.path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return l.open()
}

// lost reports whether somebody has removed or replaced the file that is written. l.mu is held.
func (l *Log) lost() bool {
	if l.f == nil {
		return false
	}
	mine, err := l.f.Stat()
	if err != nil {
		return true
	}
	now, err := os.Stat(l.path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, now)
}

// Recover begins a new file if somebody has removed the log, and reports whether so.
func (l *Log) Recover() (lost bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lost() {
		return false, nil
	}
	err = l.f.Close()
	l.f = nil
	return true, errors.Join(err, l.open())
}

func numbered(path string, i int) string {
	if i == 0 {
		return path
	}
	return path + "." + strconv.Itoa(i)
}

// Close writes what was only counted so far, and has the disk keep
// what was written.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush(func(*window) bool { return true })
	if l.f == nil {
		return err
	}
	err = errors.Join(err, l.f.Sync(), l.f.Close())
	l.f = nil
	return err
}
