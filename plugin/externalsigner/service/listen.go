package service

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// SocketName is the socket's file in the run folder, unless another is wanted.
const SocketName = "external-signer.sock"

// Scheme begins an auth provider's pathSocket; an absolute path follows.
const Scheme = "unix://"

// ErrInUse says that another process serves the socket.
var ErrInUse = errors.New("another external signer serves this socket")

// ListenAndServe is [Serve] on the socket at path, absolute. Its folder is made
// with mode 0700 if it is missing, and must be ours alone to change. A socket
// that a dead process left is replaced, and ours removed at the end; a lock file
// beside it stays. ready is called once clients can connect.
func ListenAndServe(ctx context.Context, path string, o Options, ready func()) (err error) {
	if err := home.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := socket.Check(path); err != nil { // before anything is made beside it
		return err
	}
	lock, err := home.Lock(path + ".lock") // only the lock's holder may replace the socket
	if err != nil {
		return err
	}
	ours, err := lock.TryLock()
	switch {
	case err != nil:
		return err
	case !ours:
		return fmt.Errorf("%s: %w", path, ErrInUse)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	l, err := socket.Listen(path)
	if err != nil {
		return err
	}
	name, err := socket.TakeName(path)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ready()
	return errors.Join(Serve(ctx, l, o), name.Remove())
}
