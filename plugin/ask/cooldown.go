package ask

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
)

// CoolDown keeps a PIN prompt that the person cancelled from coming back within d: a
// client that starts the program again and again (k9s, an informer) must not nag.
// Meanwhile the answer is [hsm.ErrCancelled] at once, and so it is to the very
// question that was answered with no. The moment is kept per token, or question, and
// terminal as the time of a file in the folder dir: a no in one window is none in
// another.
func CoolDown(dir string, d time.Duration, terminal uint64) Middleware {
	c := coolDown{dir, d, terminal}
	return func(next Func) Func {
		return func(ctx context.Context, q Question) (Answer, error) {
			switch {
			case q.PIN != nil:
				return c.pin(ctx, next, q)
			case q.Confirm != nil:
				return c.confirm(ctx, next, q)
			}
			return next(ctx, q)
		}
	}
}

// coolDown is the files that say what was declined, and when.
type coolDown struct {
	dir      string
	d        time.Duration
	terminal uint64
}

func (c coolDown) pin(ctx context.Context, next Func, q Question) (Answer, error) {
	of := q.PIN.Token
	path := c.path("cancelled", of.Scheme, of.Label, of.Model, of.Serial)
	if since, hot := c.hot(path); hot {
		ago := span.Limit(since.Truncate(time.Second))
		return Answer{}, hint.Withf(fmt.Errorf("the PIN prompt was %w %s ago", hsm.ErrCancelled, ago),
			"it is asked for again in %s; or run `kubehsm unlock`", c.left(since))
	}
	a, err := next(ctx, q)
	switch {
	case errors.Is(context.Cause(ctx), ErrGone): // the question was withdrawn
	case errors.Is(err, hsm.ErrCancelled), errors.Is(err, context.Canceled):
		if werr := touchFile(path); werr != nil {
			return Answer{}, errors.Join(err, fmt.Errorf("noting it: %w", werr))
		}
	case err == nil:
		if rerr := os.Remove(path); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			a.PIN.Zero()
			return Answer{}, rerr
		}
	}
	return a, err
}

func (c coolDown) confirm(ctx context.Context, next Func, q Question) (Answer, error) {
	p := q.Confirm
	path := c.path("declined", p.Question, p.Detail, p.Type)
	if since, hot := c.hot(path); hot {
		ago := span.Limit(since.Truncate(time.Second))
		return Answer{}, hint.Withf(fmt.Errorf("the question was %w %s ago", hsm.ErrCancelled, ago),
			"it is asked again in %s", c.left(since))
	}
	a, err := next(ctx, q)
	if err == nil && !a.Yes || errors.Is(err, hsm.ErrCancelled) {
		c.prune()
		if werr := touchFile(path); werr != nil {
			return Answer{}, errors.Join(err, fmt.Errorf("noting it: %w", werr))
		}
	}
	return a, err
}

// prune removes what questions have left that were declined long ago: each has a
// name of its own.
func (c coolDown) prune() {
	old, _ := filepath.Glob(filepath.Join(c.dir, "declined-*")) // the pattern is well-formed
	for _, path := range old {
		if since, hot := c.hot(path); !hot && since > 0 {
			_ = os.Remove(path) // another process may have done so
		}
	}
}

// hot tells whether the file is from within the cool-down, and since when.
func (c coolDown) hot(path string) (since time.Duration, hot bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	since = time.Since(info.ModTime())
	return since, since >= 0 && since < c.d // a clock that was set back must not silence prompts for long
}

// left is how long the cool-down that began since ago still lasts, in whole seconds.
func (c coolDown) left(since time.Duration) string {
	return span.Limit(max((c.d - since + time.Second - 1).Truncate(time.Second), time.Second))
}

// path names a file by what is asked; a label is not fit for a file name.
func (c coolDown) path(kind string, about ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append(about, strconv.FormatUint(c.terminal, 16)), "\x00")))
	return filepath.Join(c.dir, kind+"-"+hex.EncodeToString(sum[:8]))
}

// touchFile makes an empty file with the present time.
func touchFile(path string) error {
	f, _, err := regularfile.Open(path, os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	now := time.Now()
	return os.Chtimes(path, now, now)
}
