// Package logfile is the log of a program that runs on in the background: a file
// that is moved away when it is full, in which lines of one cause are counted. It
// knows nothing of who writes.
package logfile

import (
	"errors"
	"log/slog"
	"time"
)

// Log is an open log.
type Log struct {
	file  *file
	lines repeats
}

// Open opens the log at path for appending and creates it, mode 0600, if there is
// none.
func Open(path string) (*Log, error) {
	f := &file{path: path}
	if err := f.open(); err != nil {
		return nil, err
	}
	return &Log{file: f, lines: newRepeats(slog.NewTextHandler(f, nil))}, nil
}

// Logger writes to the log.
func (l *Log) Logger() *slog.Logger { return slog.New(l.lines) }

// Flush writes the counts of what has repeated for long enough. It is to be called
// now and then.
func (l *Log) Flush(now time.Time) error { return l.lines.flush(now) }

// Close writes all counts and closes the file.
func (l *Log) Close() error {
	return errors.Join(l.lines.flush(time.Now().Add(repeatWindow)), l.file.Close())
}
