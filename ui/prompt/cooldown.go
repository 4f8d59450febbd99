package prompt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// CoolDown wraps a prompter so that a PIN prompt that the person cancelled does
// not come back within d: a client that starts the program again and again
// (k9s, an informer) must not nag. Meanwhile PIN returns [hsm.ErrCancelled] at
// once. The moment is kept per token and terminal as the time of a file in the
// folder dir: a no in one window is none in another.
func CoolDown(p hsm.Prompter, dir string, d time.Duration, terminal uint64) hsm.Prompter {
	return coolDown{Prompter: p, dir: dir, d: d, terminal: terminal}
}

type coolDown struct {
	hsm.Prompter
	dir      string
	d        time.Duration
	terminal uint64
}

// PIN implements [hsm.Prompter].
func (c coolDown) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	path := c.path(p.Token)
	if info, err := os.Stat(path); err == nil {
		// A clock that was set back must not silence prompts for long.
		if since := time.Since(info.ModTime()); since >= 0 && since < c.d {
			return nil, hsm.WithHint(fmt.Errorf("the PIN prompt was %w %d s ago", hsm.ErrCancelled, int(since.Seconds())),
				"wait a moment, or run `kubehsm unlock`")
		}
	}
	s, err := c.Prompter.PIN(ctx, p)
	switch {
	case errors.Is(err, hsm.ErrCancelled), errors.Is(err, context.Canceled):
		if werr := touchFile(path); werr != nil {
			return nil, errors.Join(err, fmt.Errorf("noting it: %w", werr))
		}
	case err == nil:
		if rerr := os.Remove(path); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			s.Zero()
			return nil, rerr
		}
	}
	return s, err
}

// path names the token's file; a label is not fit for a file name.
func (c coolDown) path(t hsm.TokenInfo) string {
	sum := sha256.Sum256([]byte(t.Scheme + "\x00" + t.Label + "\x00" + t.Model + "\x00" + t.Serial + "\x00" + strconv.FormatUint(c.terminal, 16)))
	return filepath.Join(c.dir, "cancelled-"+hex.EncodeToString(sum[:8]))
}

// touchFile makes an empty file with the present time.
func touchFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	now := time.Now()
	return os.Chtimes(path, now, now)
}
