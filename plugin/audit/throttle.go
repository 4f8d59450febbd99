package audit

import (
	"errors"
	"time"
)

// repeatWindow is the time in which equal records are counted in one.
const repeatWindow = time.Minute

// maxWindows bounds the kinds of records counted at a time; further ones count as one kind.
const maxWindows = 256

type kind struct {
	event                     Event
	outcome                   Outcome
	code                      int
	reason, error, enrollment string
}

// window counts the records not written since the first.
type window struct {
	since time.Time
	last  Record
	count int
}

// Repeated appends a record of something that a program may try in a loop: the
// first of its kind at once, those that follow within a minute as one record,
// the last, with their count. No loop can push other records out.
func (l *Log) Repeated(r Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Time = l.now()
	k := kind{r.Event, r.Outcome, r.Code, r.Reason, r.Error, r.Enrollment}
	if l.repeats[k] == nil && len(l.repeats) >= maxWindows {
		k = kind{}
	}
	if w := l.repeats[k]; w != nil && r.Time.Sub(w.since) < repeatWindow {
		w.last, w.count = r, w.count+1
		return nil
	}
	err := l.flush(func(w *window) bool { return r.Time.Sub(w.since) >= repeatWindow })
	l.repeats[k] = &window{since: r.Time}
	return errors.Join(err, l.write(r))
}

// Flush writes the counts of the minutes that are over. It is to be called now
// and then.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	return l.flush(func(w *window) bool { return now.Sub(w.since) >= repeatWindow })
}

// flush ends the windows that are over. l.mu is held.
func (l *Log) flush(over func(*window) bool) error {
	var errs []error
	for k, w := range l.repeats {
		if !over(w) {
			continue
		}
		delete(l.repeats, k)
		if w.count == 0 {
			continue
		}
		r := w.last
		if r.Count = w.count; r.Count == 1 {
			r.Count = 0
		}
		errs = append(errs, l.write(r))
	}
	return errors.Join(errs...)
}
