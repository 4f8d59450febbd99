package approver

import "sync"

// reading is shared by all who wait for one at the same time. Each gets the answer of a
// reading that began after they asked.
type reading struct {
	mu      sync.Mutex
	running *answer // answer of the last reading that began, nil before the first
	next    *answer // answer of the reading that has not begun, nil if nobody waits for one
}

type answer struct {
	done  chan struct{}
	value string
	err   error
}

func (r *reading) share(read func() (string, error)) (string, error) {
	r.mu.Lock()
	a := r.next
	if a != nil {
		r.mu.Unlock()
		<-a.done
		return a.value, a.err
	}
	a = &answer{done: make(chan struct{})}
	r.next = a
	before := r.running
	r.mu.Unlock()

	if before != nil {
		<-before.done
	}
	r.mu.Lock()
	r.running, r.next = a, nil
	r.mu.Unlock()
	a.value, a.err = read()
	close(a.done)
	return a.value, a.err
}
