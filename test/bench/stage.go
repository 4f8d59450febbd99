//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// stage is where is measured: an enrolled user in a lab, and the programs.
type stage struct {
	lab *lab.Lab
	// hello is the cgo hello-world, plain the static one; keyFile a kubeconfig of the same user with a
	// key in a file; enrolled the enrollment's name.
	hello, plain, keyFile, enrolled string
	filled                          bool // whether the cluster holds the benchmark's objects
}

const group = lab.DevelopersGroup

// open builds the programs, starts a control plane and enrolls. The returned
// function takes all of it down.
func open(ctx context.Context) (_ *stage, _ func() error, err error) {
	dir, err := os.MkdirTemp("", "kubehsm-bench-")
	if err != nil {
		return nil, nil, err
	}
	var closers []func(context.Context) error
	done := func() error {
		ctx := context.WithoutCancel(ctx)
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i](ctx))
		}
		return errors.Join(append(errs, os.RemoveAll(dir))...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, done())
		}
	}()
	binary, err := lab.Build(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	checkout, err := controlplane.Checkout()
	if err != nil {
		return nil, nil, err
	}
	s := &stage{}
	if s.hello, err = lab.BuildPackage(ctx, dir, "hello", checkout, "./test/bench/testdata/hello"); err != nil {
		return nil, nil, err
	}
	if s.plain, err = lab.BuildStatic(ctx, dir, "plain", checkout, "./test/bench/testdata/plain"); err != nil {
		return nil, nil, err
	}
	cluster, err := controlplane.Start(ctx, filepath.Join(dir, "c"), controlplane.Options{Whole: true})
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, cluster.Stop)
	if err := lab.Rights(ctx, cluster); err != nil {
		return nil, nil, err
	}
	if s.keyFile, err = cluster.KubeconfigFor(lab.User, group); err != nil {
		return nil, nil, err
	}
	home := filepath.Join(dir, "l")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, nil, err
	}
	if s.lab, err = lab.New(home, lab.Options{Binary: binary, Cluster: cluster}); err != nil {
		return nil, nil, err
	}
	closers = append(closers, s.lab.Close)
	s.enrolled = lab.Enrolled
	return s, done, s.lab.Enroll(ctx, group)
}
