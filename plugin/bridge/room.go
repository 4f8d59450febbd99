package bridge

import (
	"context"
	"sync"
)

// room is memory that clients share. No client takes more than it leaves free for the others,
// so a client with a small body never waits for one that holds much.
type room struct {
	mu    sync.Mutex
	free  int64 // bytes
	held  map[asker]int64
	freed chan struct{} // closed when memory becomes free
}

func newRoom(size int64) *room {
	return &room{free: size, held: map[asker]int64{}, freed: make(chan struct{})}
}

// take waits until the client may hold n more bytes. It returns ctx's error if ctx ends first.
func (r *room) take(ctx context.Context, who asker, n int64) error {
	for {
		freed, ok := r.try(who, n)
		if ok {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *room) try(who asker, n int64) (freed chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if has := r.held[who] + n; has > r.free-n {
		return r.freed, false
	}
	r.free -= n
	r.held[who] += n
	return nil, true
}

// leave gives n bytes back.
func (r *room) leave(who asker, n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	if r.held[who] -= n; r.held[who] == 0 {
		delete(r.held, who)
	}
	close(r.freed)
	r.freed = make(chan struct{})
}
