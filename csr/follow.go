package csr

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is one thing that Follow saw.
type Event struct {
	// Type is watch.Added (for what was there at the start, too), watch.Modified
	// or watch.Deleted.
	Type   watch.EventType
	Object *certificatesv1.CertificateSigningRequest
}

// Follow goes through the chosen requests page by page and then through their
// changes, until ctx ends or the caller stops. Watches that break or expire are
// begun again where they ended; where that is too long ago, what there is now is
// gone through again and what is new of it handed on, but not what was deleted.
// Held in memory are the UIDs and versions, never the requests.
func (c *Client) Follow(ctx context.Context, o ListOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := follower{c: c, o: o, yield: yield, seen: map[types.UID]string{}}
		cfg := defaultWait()
		pause := cfg.retryMin
		for {
			began := time.Now()
			again, err := f.round(ctx)
			switch {
			case f.stopped:
				return
			case ctx.Err() != nil:
				f.yield(Event{}, ctx.Err())
				return
			case err != nil && !transient(err):
				f.yield(Event{}, err)
				return
			case again || time.Since(began) >= cfg.settled:
				pause = cfg.retryMin
				continue
			}
			t := time.NewTimer(pause/2 + rand.N(pause/2+1))
			pause = min(2*pause, cfg.retryMax)
			select {
			case <-ctx.Done():
			case <-t.C:
			}
			t.Stop()
		}
	}
}

type follower struct {
	c       *Client
	o       ListOptions
	yield   func(Event, error) bool
	seen    map[types.UID]string // versions
	version string               // resource version where the next watch begins; empty: list first
	stopped bool
}

// round lists if it must, and watches until the stream ends. again: it ended in
// a way that calls for another round at once.
func (f *follower) round(ctx context.Context) (again bool, err error) {
	if f.version == "" {
		if err := f.list(ctx); err != nil || f.stopped {
			return false, err
		}
	}
	o := f.o
	o.ResourceVersion = f.version
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := f.c.watch(ctx, o)
	if err != nil {
		if f.expired(err) {
			return true, nil
		}
		return false, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if err := f.c.watchError(e); err != nil {
			if f.expired(err) {
				return true, nil
			}
			return false, err
		}
		obj, err := asRequest(e)
		if err != nil {
			return false, err
		}
		f.version = obj.ResourceVersion
		if e.Type == watch.Bookmark {
			continue
		}
		if f.see(e.Type, obj); f.stopped {
			return false, nil
		}
	}
	return false, nil
}

// expired has the next round list again where the watch was too old to go on.
func (f *follower) expired(err error) bool {
	if !errors.Is(err, ErrExpired) {
		return false
	}
	f.version = ""
	return true
}

// list goes through what there is; what vanished unseen counts as deleted.
func (f *follower) list(ctx context.Context) error {
	present := map[types.UID]bool{}
	o := f.o
	for {
		page, err := f.c.Page(ctx, o)
		if token := continueAfter(err); token != "" && token != o.Continue {
			o.Continue = token
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			obj := &page.Items[i]
			present[obj.UID] = true
			kind := watch.Modified
			if _, known := f.seen[obj.UID]; !known {
				kind = watch.Added
			}
			if f.see(kind, obj); f.stopped {
				return nil
			}
		}
		if f.version = page.ResourceVersion; page.Continue == "" {
			break
		}
		o.Continue = page.Continue
	}
	for uid := range f.seen {
		if !present[uid] {
			delete(f.seen, uid) // the request was deleted
		}
	}
	return nil
}

// see hands on what is new.
func (f *follower) see(kind watch.EventType, obj *certificatesv1.CertificateSigningRequest) {
	if kind == watch.Deleted {
		delete(f.seen, obj.UID)
	} else {
		if f.seen[obj.UID] == obj.ResourceVersion {
			return
		}
		f.seen[obj.UID] = obj.ResourceVersion
	}
	f.stopped = !f.yield(Event{Type: kind, Object: obj}, nil)
}
