package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
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

// note keeps an error, if it is one. A key that wants a person, whom a sign-in in the background does not ask, is no
// failure to warn of.
func (r *record) note(err error) {
	if err != nil {
		r.lastError.Store(err.Error())
		level := slog.LevelWarn
		if errors.Is(err, hsm.ErrPINRequired) {
			level = slog.LevelInfo
		}
		r.log.Log(context.Background(), level, "upstream", "enrollment", r.enrollment, "error", err)
	}
}
