//go:build cgo

package pkcs11

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
)

// lockPoll is how often a taken lock is tried again. It is held for about a
// millisecond at a time.
const lockPoll = 2 * time.Millisecond

// fileLock excludes other processes (and other goroutines) from a module's
// files for the length of a call. The zero value does not lock.
type fileLock struct{ path string }

// newLock returns the lock of the module at the path real, in dir.
func newLock(dir, real string) (fileLock, error) {
	if dir == "" {
		return fileLock{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fileLock{}, fmt.Errorf("lock folder: %w", err)
	}
	sum := sha256.Sum256([]byte(real))
	return fileLock{path: filepath.Join(dir, fmt.Sprintf("pkcs11-%x.lock", sum[:8]))}, nil
}

// shared runs f, which reads a token, beside other readers.
func (l fileLock) shared(ctx context.Context, f func() error) error {
	return l.run(ctx, filelock.Lock.TryRLockContext, f)
}

// exclusive runs f, which writes a token, alone.
func (l fileLock) exclusive(ctx context.Context, f func() error) error {
	return l.run(ctx, filelock.Lock.TryLockContext, f)
}

func (l fileLock) run(ctx context.Context, take func(filelock.Lock, context.Context, time.Duration) (bool, error),
	f func() error) (err error) {
	if l.path == "" {
		return f()
	}
	file := filelock.New(l.path)
	if _, err := take(file, ctx, lockPoll); err != nil {
		return fmt.Errorf("lock the token's module: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return f()
}
