package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Runs reports whether the cluster in dir, started by another process with
// [Options.Detached], has an etcd and an API server that run.
func Runs(dir string) (bool, error) {
	s, err := readState(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return s.Processes[string(Etcd)].Alive() && s.Processes[string(APIServer)].Alive(), err
}

// StopDir ends every process of the cluster in dir that still runs. It is no
// error if there is none.
func StopDir(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	s, err := readState(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c := &Cluster{dir: dir, state: s, procs: map[Component]*process{}}
	for name, id := range s.Processes {
		c.procs[Component(name)] = &process{Ident: id}
	}
	return c.Stop(ctx)
}
