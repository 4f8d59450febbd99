//go:build linux && cgo

package faults

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// diskSize is that of the disk that an episode's home folder and kubeconfig are on.
const diskSize = "4m"

// world is what an episode goes on in: a lab, and what can be done to it.
type world struct {
	*lab.Lab
	rig    *rig
	token  token
	server *controlplane.Balancer
	clock  []byte // mapped by all processes of the lab

	stopped []int // processes that were suspended
	timers  sync.WaitGroup
	closed  []func() error

	mu  sync.Mutex
	err error // why the fault could not be made
}

// fail keeps why a fault could not be made.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

// struck returns why, and forgets it.
func (w *world) struck() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.err
	w.err = nil
	return err
}

// newWorld makes a lab in dir with the program binary.
func newWorld(ctx context.Context, dir, binary string, c *controlplane.Cluster, tok token) (w *world, err error) {
	w = &world{token: tok}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.release())
		}
	}()
	if w.Lab, err = lab.New(dir, lab.Options{Binary: binary, Cluster: c}); err != nil {
		return w, err
	}
	// Before the first process: a clock that appears later is not seen.
	if err := w.makeClock(); err != nil {
		return w, err
	}
	if w.rig, err = newRig(dir); err != nil {
		return w, err
	}
	w.closed = append(w.closed, func() error { w.rig.close(); return nil })
	if w.server, err = controlplane.NewBalancer("127.0.0.1:0", c.Server()); err != nil {
		return w, err
	}
	w.closed = append(w.closed, func() error { w.server.Close(); return nil })
	if err := w.makeDisk(); err != nil {
		return w, err
	}
	return w, w.token.begin(w)
}

// release gives back what the world took, the last first.
func (w *world) release() error {
	var errs []error
	for i := len(w.closed) - 1; i >= 0; i-- {
		errs = append(errs, w.closed[i]())
	}
	w.closed = nil
	return errors.Join(errs...)
}

func (w *world) makeClock() error {
	file := filepath.Join(w.Dir, "clock")
	if err := os.WriteFile(file, make([]byte, 8), 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if w.clock, err = unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	w.closed = append(w.closed, func() error { return unix.Munmap(w.clock) })
	return nil
}

// setClock puts the wall clock of all the lab's processes off by d.
func (w *world) setClock(d time.Duration) {
	binary.NativeEndian.PutUint64(w.clock, uint64(int64(d/time.Second)))
}

// makeDisk moves the home folder and the kubeconfig to a small disk of their own.
func (w *world) makeDisk() error {
	disk := filepath.Join(w.Dir, "v")
	if err := os.Mkdir(disk, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "mode=700,size="+diskSize); err != nil {
		return fmt.Errorf("mount a small disk: %w", err)
	}
	w.closed = append(w.closed, func() error { return unix.Unmount(disk, unix.MNT_DETACH) })
	// Only its own token: smart cards are other episodes'.
	only := "onlyModules: true\n"
	if _, piv := w.token.(*card); piv {
		only = ""
	}
	home, config := filepath.Join(disk, "k"), filepath.Join(disk, "c", "config")
	text, err := os.ReadFile(w.Kubeconfig)
	if err == nil {
		text = bytes.ReplaceAll(text, []byte(w.Cluster.Server()), []byte(w.server.URL()))
		err = errors.Join(os.Mkdir(home, 0o700), os.Mkdir(filepath.Dir(config), 0o700),
			os.WriteFile(config, text, 0o600), os.Remove(w.Kubeconfig))
	}
	if err == nil {
		text, err = os.ReadFile(filepath.Join(w.Home, "config.yaml"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "config.yaml"), append([]byte(only), text...), 0o600)
	}
	w.Home, w.Kubeconfig = home, config
	return err
}

func (w *world) ballast() string { return filepath.Join(w.Dir, "v", "ballast") }

// fillDisk leaves not a byte on the disk.
func (w *world) fillDisk() error {
	f, err := os.OpenFile(w.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err = f.Write(block); err == nil {
			continue
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		block = block[:len(block)/2]
	}
	return nil
}

func (w *world) emptyDisk() error {
	if err := os.Remove(w.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// serverAway has nobody answer at the API server's address, or somebody again.
func (w *world) serverAway(away bool) error {
	if away {
		return w.server.To("https://127.0.0.1:1")
	}
	return w.server.To(w.Cluster.Server())
}

// run runs the program, with the PIN if that is wanted, no longer than limit. Who
// does not end is killed with all it waits for, and that is said.
func (w *world) run(ctx context.Context, limit time.Duration, o lab.Run, program string, args ...string) (lab.Result,
	error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if o.PIN != "" {
		args = append(args, "--pin-fd", "3")
	}
	res, err := w.Run(ctx, o, program, args...)
	if ctx.Err() != nil {
		return res, fmt.Errorf("%s has not ended after %s", strings.Join(args, " "), limit)
	}
	return res, err
}

// typed runs the program on a terminal, where a person types the token's PIN when it is
// asked for.
func (w *world) typed(ctx context.Context, limit time.Duration, args ...string) (lab.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t, err := term.Start(term.Options{Path: w.Binary, Args: args, Dir: w.Dir, Env: w.Env(), Columns: 200, Rows: 50})
	if err != nil {
		return lab.Result{}, err
	}
	defer t.Close()
	// The error is that the program has ended without asking.
	if t.Wait(ctx, func(f term.Frame) bool { return f.Contains(" needs its ") }) == nil {
		_ = t.TypeSecret(w.token.pin() + "\r") // The program may have ended since.
	}
	code, err := t.ExitCode(ctx)
	return lab.Result{Stderr: t.Frame().Text(), Code: code, PID: t.PID()}, err
}

// processes are the lab's, by role.
func (w *world) processes() (map[role][]int, error) {
	all, err := w.Processes()
	found := map[role][]int{}
	for pid, line := range all {
		_, line, _ = strings.Cut(line, " ")
		r := roleOf(line)
		found[r] = append(found[r], pid)
	}
	return found, err
}
