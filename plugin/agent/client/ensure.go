package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process/child"
)

// StartTimeout bounds how long a new agent may take to listen.
const StartTimeout = 20 * time.Second

// Start starts an agent and waits until it listens, or another one does: exe is this program's absolute path, run as
// `exe agent serve` in a session of its own, with no terminal and none of our streams (kubectl waits for the end of its
// plugin's output).
func Start(ctx context.Context, d home.Dirs, exe string) error {
	if err := d.Prepare(); err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	// What the program says before it has a log, and how it crashed.
	words, _, err := home.OpenFile(filepath.Join(d.State, "agent.stderr"), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	defer words.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	defer r.Close()
	cmd := exec.Command(exe, "agent", "serve")
	cmd.Dir = string(filepath.Separator)
	cmd.Env = child.Environ()
	cmd.Stderr = words
	cmd.SysProcAttr = child.Detached()
	if err = child.PassReady(cmd, w); err == nil {
		err = cmd.Start()
	}
	err = errors.Join(err, w.Close())
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }() // Wait prevents a zombie
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	read := make(chan error, 1)
	go func() { // Windows' pipes have no deadlines; the end of this function ends the read
		line, err := bufio.NewReaderSize(r, 64).ReadString('\n')
		if line == child.ReadyLine {
			err = nil
		}
		read <- err
	}()
	select {
	case err = <-read:
	case <-ctx.Done():
		return fmt.Errorf("the agent did not start listening: %w", ctx.Err())
	}
	if err != nil {
		return startFailure(words, <-exited, err, d)
	}
	return nil
}

// startFailure repeats what the agent said as it failed.
func startFailure(words io.ReaderAt, exit, read error, d home.Dirs) error {
	b := make([]byte, 2048)
	n, err := words.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the agent did not start: %w", errors.Join(exit, read, err))
	}
	message, hint := parseReport(string(b[:n]))
	if message == "" {
		message = fmt.Sprint(errors.Join(exit, read))
	}
	if hint == "" {
		hint = "its log is " + d.LogFile()
	}
	return hinting.With(fmt.Errorf("the agent did not start: %s", message), hint)
}

// parseReport reads the error: and hint: lines that the program ends with.
func parseReport(s string) (message, hint string) {
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "error: "); ok {
			message = rest
		} else if rest, ok := strings.CutPrefix(line, "hint: "); ok {
			hint = rest
		}
	}
	if message == "" {
		message, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	}
	return message, hint
}
