package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/test/controlplane"
)

// command is a program that the trial runs in its own environment.
type command struct {
	*exec.Cmd
	pin bool
}

func (t *trial) command(ctx context.Context, name string, args ...string) *command {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = t.env()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the program may have a terminal to restore
	cmd.WaitDelay = 10 * time.Second
	return &command{Cmd: cmd}
}

// withPIN hands the PIN over on file descriptor 3: arguments and environment
// can be read by others.
func (c *command) withPIN() *command {
	c.pin = true
	return c
}

// attached runs the command on the terminal.
func (c *command) attached() error {
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	return c.run()
}

// shown runs the command before the user's eyes: its line, then its output. It
// has no standard input, but the terminal, if there is one, to ask on.
func (c *command) shown() error {
	fmt.Println("$", c.line())
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.run()
}

// output runs the command and returns its standard output.
func (c *command) output() ([]byte, error) {
	var stdout bytes.Buffer
	c.Stdout, c.Stderr = &stdout, os.Stderr
	err := c.run()
	return stdout.Bytes(), err
}

func (c *command) run() error {
	if err := c.start(); err != nil {
		return fmt.Errorf("%s: %w", c.line(), err)
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.line(), err)
	}
	return nil
}

func (c *command) start() error {
	if !c.pin {
		return c.Start()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	c.ExtraFiles = []*os.File{r}
	_, err = io.WriteString(w, trialPIN+"\n") // far less than a pipe holds
	err = errors.Join(err, w.Close())
	if err == nil {
		err = c.Start()
	}
	return errors.Join(err, r.Close())
}

// line is the command as a person would type it in the working folder.
func (c *command) line() string {
	words := []string{filepath.Base(c.Path)}
	for _, a := range c.Args[1:] {
		words = append(words, quoteIfNeeded(fromHere(a)))
	}
	return strings.Join(words, " ")
}

// fromHere shortens a path in the working folder.
func fromHere(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path // the absolute path is right too
	}
	return strings.TrimPrefix(path, here+string(filepath.Separator))
}

// buildKubehsm puts kubehsm into the trial's bin folder, if it changed there.
// The linker's output is kept apart, so that a running agent is not written over.
func buildKubehsm(ctx context.Context, t *trial) error {
	root, err := controlplane.Checkout()
	if err != nil {
		return err
	}
	built := t.path("build", "kubehsm")
	build := t.command(ctx, "go", "build", "-buildvcs=false", "-o", built, ".")
	build.Dir = root
	if err := build.shown(); err != nil {
		return err
	}
	fresh, err := os.ReadFile(built)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(t.kubehsm())
	if err == nil && bytes.Equal(old, fresh) {
		return nil
	}
	if err == nil { // another version: its agent must not serve this one
		fmt.Println("  kubehsm has changed; the agent of the version before is stopped")
		if err := stopAgent(ctx, t); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := replace(t.kubehsm(), fresh, 0o700); err != nil {
		return err
	}
	plugin := t.command(ctx, "go", "build", "-buildvcs=false", "-o", t.path("bin", execcredential.Program),
		"./plugin/"+execcredential.Program)
	plugin.Dir = root
	if err := plugin.shown(); err != nil {
		return err
	}
	if err := os.Symlink("kubehsm", t.path("bin", "kubectl-hsm")); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
