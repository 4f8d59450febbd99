//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// manyClusters are as many as somebody who looks after clusters of others has.
const manyClusters = 300

// many measures what a person with many clusters waits for, against the same with one.
func (b *bench) many(ctx context.Context) (err error) {
	dir := filepath.Join(b.lab.Dir, "many")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	other, err := lab.New(dir, lab.Options{Binary: b.lab.Binary, Cluster: b.lab.Cluster})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close(context.WithoutCancel(ctx))) }()
	if err := other.Enroll(ctx, group); err != nil {
		return err
	}
	if err := multiply(ctx, other); err != nil {
		return err
	}
	for _, l := range []*lab.Lab{b.lab, other} {
		if err := l.Unlock(ctx); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		what string
		of   func(*lab.Lab) program
		bar  float64
		n    int
	}{
		{"`kubehsm-credential`", func(l *lab.Lab) program {
			return program{path: l.Plugin, args: []string{"credential", "--enrollment", b.enrolled},
				env: append(l.Env(), execInfo)}
		}, 1.1, b.n},
		{"`kubehsm doctor`", func(l *lab.Lab) program {
			return program{path: l.Binary, args: []string{"doctor"}, env: l.Env()}
		}, 2, min(b.n, 9)},
	} {
		of := r.of
		line := row{what: fmt.Sprintf("%s, %d enrollments", r.what, manyClusters), against: "the same with one", bar: r.bar}
		if err := b.compare(ctx, line, r.n, of(other), of(b.lab)); err != nil {
			return err
		}
	}
	return nil
}

// multiply makes the enrollment of l one of many: the others have its key and certificate.
func multiply(ctx context.Context, l *lab.Lab) error {
	dirs, store, en, err := stored(l)
	if err != nil {
		return err
	}
	chain, err := store.Certificate(en)
	if err != nil {
		return err
	}
	k := contexts.New(&env.Env{Dirs: dirs, Executable: l.Binary, Kubeconfig: l.Kubeconfig})
	for i := range manyClusters - 1 {
		en.Name, en.Signed = fmt.Sprintf("cluster-%03d", i), enrollment.Signed{}
		if err := errors.Join(store.Save(en), store.SaveCertificate(en, chain)); err != nil {
			return err
		}
		if _, err := lab.Succeeded(l.KubehsmPIN(ctx, lab.PIN, "consent", "set", en.Name, "--policy", "session", "--yes")); err != nil {
			return err
		}
		change, err := k.PlanEntry(ctx, en, false, false)
		if err == nil {
			err = change.Apply(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stored returns the enrollment of l, and where it is.
func stored(l *lab.Lab) (dirs home.Dirs, store enrollment.Store, en enrollment.Enrollment, err error) {
	dirs, err = home.FromEnv(func(name string) string { return map[string]string{home.EnvHome: l.Home}[name] })
	if err == nil {
		store = enrollment.NewStore(dirs)
		en, err = store.Load(lab.Enrolled)
	}
	return dirs, store, en, err
}
