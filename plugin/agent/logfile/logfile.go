// Package logfile is the log of a program that runs on in the background: a file that is moved
// away when it is full. It knows nothing of who writes.
package logfile

import (
	"errors"
	"log/slog"
	"os"
	"sync"

	"github.com/kubehsm/kubehsm/plugin/home"
)

// maxLog is where the log is rotated, in bytes; one old file is kept.
const maxLog = 1 << 20

// Log is an open log. A full one moves to PATH.1.
type Log struct {
	path string
	mu   sync.Mutex
	f    *os.File
	size int64
}

// Open opens the log at path for appending and creates it, mode 0600, if there is none.
func Open(path string) (*Log, error) {
	l := &Log{path: path}
	return l, l.open()
}

func (l *Log) open() error {
	f, info, err := home.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Logger writes to the log.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements [io.Writer].
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(b)) > maxLog {
		if err := errors.Join(l.f.Close(), os.Rename(l.path, l.path+".1"), l.open()); err != nil {
			return 0, err
		}
	}
	n, err := l.f.Write(b)
	l.size += int64(n)
	return n, err
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
