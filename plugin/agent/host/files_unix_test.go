//go:build unix

package host

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// TestStrangeFiles: whichever of its files is a pipe, or one of gigabytes, the agent starts, or says why not, and answers.
func TestStrangeFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.mustPrepare(hsmtest.Typing(t, pin))
	r.end()
	var files []string
	check(t, filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}))
	if len(files) < 8 {
		t.Fatalf("only %d files: %v", len(files), files)
	}
	for name, replace := range map[string]func(path string) error{
		"pipe":  func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"large": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 3<<30)) },
	} {
		for _, path := range files {
			t.Run(name+strings.TrimPrefix(path, r.dir), func(t *testing.T) {
				check(t, os.Rename(path, path+".kept"))
				check(t, replace(path))
				r.once(t)
				check(t, errors.Join(os.RemoveAll(path), os.RemoveAll(path+".1"))) // logs may begin anew
				check(t, os.Rename(path+".kept", path))
			})
		}
	}
}

// once has an agent start, prepare and end, whether that succeeds or not.
func (r *rig) once(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw, err := os.Pipe()
	check(t, err)
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, Options{Dirs: r.dirs, Version: "test", Ready: pw, identify: believe, whose: believeSession,
			Tokens: worker.InProcess(hsm.Drivers{keepOpen{r.fake}})})
	}()
	_, err = io.ReadAll(pr)
	check(t, errors.Join(err, pr.Close()))
	if r.runs() {
		_, err = r.prepare(r.dial(), caller(1), hsmtest.Typing(t, pin))
	}
	cancel()
	if err = errors.Join(err, <-done); errors.Is(err, home.ErrUnsafe) && hint.Of(err) == "" {
		t.Errorf("no hint: %v", err)
	}
}
