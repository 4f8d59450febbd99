package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Attach returns the cluster that runs in dir, started by another process with
// [Options.Detached]. The error is [ErrNotRunning] unless etcd and the API
// server run.
func Attach(dir string) (*Cluster, error) {
	c, err := open(dir)
	if err != nil {
		return nil, err
	}
	for _, component := range []Component{Etcd, APIServer} {
		if p := c.procs[component]; p == nil || !p.Alive() {
			return nil, fmt.Errorf("%w: %s: %s is gone", ErrNotRunning, c.dir, component)
		}
	}
	return c, nil
}

// StopDir ends every process of the cluster in dir that still runs. It is no
// error if there is none.
func StopDir(ctx context.Context, dir string) error {
	c, err := open(dir)
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.Stop(ctx)
}

// open reads dir's record; its processes may be gone.
func open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s, err := readState(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotRunning, dir)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, state: s, procs: map[Component]*process{}}
	for name, id := range s.Processes {
		c.procs[Component(name)] = &process{Ident: id}
	}
	if c.pki, err = openPKI(filepath.Join(dir, "pki")); err != nil {
		return nil, err
	}
	return c, nil
}
