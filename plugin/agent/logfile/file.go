package logfile

import (
	"errors"
	"os"
	"sync"

	"github.com/kubehsm/kubehsm/plugin/home"
)

// maxLog is where the log is rotated, in bytes; one old file is kept.
const maxLog = 1 << 20

// file is a file that moves itself to PATH.1 when it is full.
type file struct {
	path string
	mu   sync.Mutex
	f    *os.File
	size int64
}

func (l *file) open() error {
	f, info, err := home.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write implements [io.Writer].
func (l *file) Write(b []byte) (int, error) {
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
func (l *file) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
