//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

func main() {
	out := flag.String("o", "docs/pictures", "the folder to write to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := run(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run sets the stage, lets the program play, and takes the pictures.
func run(ctx context.Context, out string) (err error) {
	dir, err := os.MkdirTemp("", "jane-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := lab.Build(ctx, dir)
	if err != nil {
		return err
	}
	cluster, err := controlplane.Start(ctx, filepath.Join(dir, "c"), controlplane.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx))) }()
	if err := lab.Rights(ctx, cluster); err != nil {
		return err
	}
	home := filepath.Join(dir, "l")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	l, err := lab.New(home, lab.Options{Binary: binary, Cluster: cluster,
		Tokens: []hsmtest.SoftToken{{Label: "jane", PIN: lab.PIN, SOPIN: lab.SOPIN}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close(context.WithoutCancel(ctx))) }()
	p := &play{lab: l, out: out}
	if err := p.enroll(ctx); err != nil {
		return err
	}
	for _, scene := range []func(context.Context) error{p.home, p.requests, p.kubectl} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

// play is what happens on the terminal.
type play struct {
	lab *lab.Lab
	out string
}

// enroll ends at the result in the terminal UI.
func (p *play) enroll(ctx context.Context) (err error) {
	s, err := p.start(24, p.lab.Binary, "enroll", "--tui", "--user", "jane", "--group", lab.DevelopersGroup,
		"--context", lab.Context, "--approve-with", p.lab.Cluster.AdminKubeconfig())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, step := range []struct {
		until string
		send  term.Key
	}{
		{"This is what will be done", term.Enter}, {"PIN of jane", ""},
	} {
		if err := p.wait(ctx, s, step.until); err != nil {
			return err
		}
		if err := s.Type(string(step.send)); err != nil {
			return err
		}
	}
	if err := p.answer(ctx, s); err != nil {
		return err
	}
	if err := p.wait(ctx, s, "Enrolled: authenticated as jane"); err != nil {
		return err
	}
	return p.take(s, "enroll", "kubehsm")
}

// answer types the PIN into the dialog, which takes no keys at first.
func (p *play) answer(ctx context.Context, s *term.Terminal) error {
	next := time.Now()
	err := s.Wait(ctx, func(f term.Frame) bool {
		if now := time.Now(); !f.Contains("PIN  •") && now.After(next) {
			next = now.Add(time.Second)
			_ = s.Type("x") // where it fails the wait does too
		}
		return f.Contains("PIN  •")
	})
	if err != nil {
		return fmt.Errorf("the PIN dialog: %w", err)
	}
	return s.TypeSecret(string(term.CtrlU) + lab.PIN + string(term.Enter))
}

// kubectl shows stock kubectl with a token that is locked at first.
func (p *play) kubectl(ctx context.Context) (err error) {
	if res, err := p.lab.Kubehsm(ctx, "agent", "stop"); err != nil || res.Code != 0 {
		return errors.Join(err, errors.New(res.String()))
	}
	s, err := p.start(24, "/bin/sh", "-i")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	const asks = "needs its PIN"
	for _, step := range []struct{ until, send string }{
		{"$", "kubectl auth whoami\r"}, {asks, ""}, {"developers", "kubectl get namespaces\r"},
		{"kube-system", "kubehsm agent status\r"}, {"unlocked", ""},
	} {
		err := s.Wait(ctx, func(f term.Frame) bool {
			lines := f.Crop().Lines()
			return f.Contains(step.until) && (step.until == asks || lines[len(lines)-1] == "$")
		})
		if err == nil && step.until == asks {
			err = s.TypeSecret(lab.PIN + "\r")
		} else if err == nil {
			err = s.Type(step.send)
		}
		if err != nil {
			return fmt.Errorf("at %q: %w; the screen:\n%s", step.until, err, s.Frame().Text())
		}
	}
	return p.take(s, "kubectl", "jane@laptop")
}

func (p *play) start(rows int, path string, args ...string) (*term.Terminal, error) {
	return term.Start(term.Options{Path: path, Args: args, Dir: p.lab.Dir, Columns: 100, Rows: rows,
		Env: append(p.lab.Env(), "PS1=\x1b[1;32m$\x1b[0m ")})
}

func (p *play) wait(ctx context.Context, s *term.Terminal, text string) error {
	if err := s.Wait(ctx, func(f term.Frame) bool { return f.Contains(text) }); err != nil {
		return fmt.Errorf("wait for %q: %w; the screen:\n%s", text, err, s.Frame().Text())
	}
	return nil
}

// take draws the screen into a file.
func (p *play) take(s *term.Terminal, name, title string) error {
	if shown := s.Shown(); len(shown) > 0 {
		return errors.New("a PIN was shown: no picture of that")
	}
	if err := os.MkdirAll(p.out, 0o755); err != nil { //nolint:gosec // documentation
		return err
	}
	file := filepath.Join(p.out, name+".svg")
	fmt.Fprintln(os.Stderr, file)
	return os.WriteFile(file, []byte(render(s.Frame().Crop(), title)), 0o644) //nolint:gosec // documentation
}
