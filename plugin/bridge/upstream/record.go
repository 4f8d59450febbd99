package upstream

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// record is what is known of an upstream's past. All of its parts write it.
type record struct {
	log        *slog.Logger
	enrollment string

	requests, signatures, dials, resumed atomic.Uint64
	inFlight                             atomic.Int64
	lastUsed, lastAnswer                 atomic.Int64 // Unix nanoseconds
	lastError                            atomic.Value // string
}

// begin counts a request, until end.
func (r *record) begin() {
	r.requests.Add(1)
	r.inFlight.Add(1)
	r.lastUsed.Store(time.Now().UnixNano())
}

func (r *record) end() {
	r.lastUsed.Store(time.Now().UnixNano())
	r.inFlight.Add(-1)
}

// note keeps an error, if it is one.
func (r *record) note(err error) {
	if err != nil {
		r.lastError.Store(err.Error())
		r.log.Warn("upstream", "enrollment", r.enrollment, "error", err)
	}
}
