//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

func main() {
	out := flag.String("o", "docs/pictures", "the folder to write to")
	part := flag.String("part", "", "make only this: still, moving (used inside: card)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	code, err := run(ctx, *part, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	os.Exit(code)
}

// run makes the pictures of a part, or of all, each part in a process of its own.
func run(ctx context.Context, part, out string) (code int, err error) {
	switch part {
	case "still":
		return 0, still(ctx, out)
	case "moving":
		return onCard("-part", "card", "-o", out)
	case "card":
		return 0, job(ctx, out)
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	for _, part := range []string{"still", "moving"} {
		c := exec.CommandContext(ctx, self, "-part", part, "-o", out)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return 1, fmt.Errorf("%s pictures: %w", part, err)
		}
	}
	return 0, nil
}

// still takes the pictures that do not move, on a token of SoftHSM2.
func still(ctx context.Context, out string) (err error) {
	dir, err := os.MkdirTemp("", "jane-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o := lab.Options{Tokens: []hsmtest.SoftToken{{Label: "jane", PIN: lab.PIN, SOPIN: lab.SOPIN}}}
	return onStage(ctx, dir, o, func(l *lab.Lab) error {
		p := &play{lab: l, out: out}
		for _, scene := range []func(context.Context) error{p.enroll, p.home, p.requests, p.kubectl} {
			if err := scene(ctx); err != nil {
				return err
			}
		}
		return nil
	})
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
	return p.startSized(100, rows, path, args...)
}

func (p *play) startSized(columns, rows int, path string, args ...string) (*term.Terminal, error) {
	return term.Start(term.Options{Path: path, Args: args, Dir: p.lab.Dir, Columns: columns, Rows: rows,
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
	return p.write(name, render(s.Frame().Crop(), title))
}

func (p *play) write(name, svg string) error {
	if err := os.MkdirAll(p.out, 0o755); err != nil { //nolint:gosec // documentation
		return err
	}
	file := filepath.Join(p.out, name+".svg")
	fmt.Fprintln(os.Stderr, file)
	return os.WriteFile(file, []byte(svg), 0o644) //nolint:gosec // documentation
}
