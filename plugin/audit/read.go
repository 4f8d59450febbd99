package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
)

// poll is how often a followed file is read.
const poll = 250 * time.Millisecond

// Filter chooses records.
type Filter struct {
	// Since is the earliest time; zero is the beginning.
	Since time.Time
	// Enrollment is the enrollment's name; "" takes all, and records of none.
	Enrollment string
	// Follow goes on with what is written later, until the context ends.
	Follow bool
}

func (f Filter) takes(r Record) bool {
	return (f.Since.IsZero() || !r.Time.Before(f.Since)) && // Somebody who changed the log may have written the year 0.
		(f.Enrollment == "" || r.Enrollment == f.Enrollment)
}

// Read calls each with the records that the filter takes, the oldest first. A
// log that does not exist is empty. It returns how many lines could not be
// read: a crash or a full disk may leave half a line. With Follow it returns
// when ctx ends, without an error; else it is ctx's error.
func Read(ctx context.Context, path string, f Filter, each func(Record) error) (damaged int, err error) {
	r := &reader{path: path, filter: f, each: each}
	defer func() {
		if err != nil {
			err = fmt.Errorf("audit log: %w", err)
		}
	}()
	if err := r.openOldest(); err != nil {
		return 0, err
	}
	defer r.close()
	if err := r.toEnd(ctx); err != nil || !f.Follow {
		return r.damaged, cmp.Or(err, ctx.Err())
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return r.damaged, nil
		case <-tick.C:
			if err := r.toEnd(ctx); err != nil {
				return r.damaged, err
			}
		}
	}
}

// reader reads the files from the oldest to the newest. It keeps its file open and looks for that
// file's current number to find the successor, so that it loses nothing in a rotation.
type reader struct {
	path    string
	filter  Filter
	each    func(Record) error
	f       *os.File
	in      *bufio.Reader
	part    []byte // start of a line whose end is not written yet
	damaged int
}

func (r *reader) openOldest() error {
	for i := keep; i >= 0; i-- {
		f, err := openEnd(numbered(r.path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r.use(f)
		return err
	}
	return nil
}

// mostRead bounds what is read of one file, in bytes: another program may have made it larger.
const mostRead = 16 * maxSize

func openEnd(path string) (*os.File, error) {
	f, info, err := regularfile.Open(path, os.O_RDONLY)
	if err == nil && info.Size() > mostRead {
		_, err = f.Seek(-mostRead, io.SeekEnd)
	}
	return f, err
}

func (r *reader) use(f *os.File) {
	r.close()
	r.f, r.part = f, nil
	if f != nil {
		r.in = bufio.NewReaderSize(f, maxLine)
	}
}

func (r *reader) close() {
	if r.f != nil {
		_ = r.f.Close() // only read from
	}
}

func (r *reader) toEnd(ctx context.Context) error {
	if r.f == nil {
		if err := r.openOldest(); err != nil || r.f == nil {
			return err
		}
	}
	for ctx.Err() == nil {
		// Looked up before the rest is read: what is in a file that has a
		// successor then is all there will be.
		next, err := r.successor()
		if err != nil {
			return err
		}
		if err := r.lines(ctx); err != nil {
			if next != nil {
				_ = next.Close() // only read from
			}
			return err
		}
		if next == nil {
			return nil
		}
		if len(r.part) > 0 {
			r.damaged++
		}
		r.use(next)
	}
	return nil
}

// successor opens the file after the current one, nil if it is the last.
func (r *reader) successor() (*os.File, error) {
	here, err := r.f.Stat()
	if err != nil {
		return nil, err
	}
	for i := range keep + 1 {
		info, err := os.Stat(numbered(r.path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if os.SameFile(here, info) {
			if i == 0 {
				return nil, nil
			}
			return openNewer(r.path, i-1)
		}
	}
	return openNewer(r.path, keep) // the file was dropped: go on with the oldest
}

// openNewer opens the i-th file, or the next newer one that exists.
func openNewer(path string, i int) (*os.File, error) {
	for ; i >= 0; i-- {
		f, err := openEnd(numbered(path, i))
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, nil // a rotation is under way
}

func (r *reader) lines(ctx context.Context) error {
	for ctx.Err() == nil {
		b, err := r.in.ReadSlice('\n')
		r.part = append(r.part, b...)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(r.part) > maxLine { // keep no more of it than tells that it is too long
				r.part = r.part[:maxLine+1]
			}
			continue
		case err != nil:
			return err
		}
		line := r.part
		r.part = r.part[:0]
		if err := r.line(line); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) line(b []byte) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	var rec Record
	if len(b) > maxLine || json.Unmarshal(b, &rec) != nil || rec.Event == "" {
		r.damaged++
		return nil
	}
	if !r.filter.takes(rec) {
		return nil
	}
	return r.each(rec)
}
