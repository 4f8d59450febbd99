//go:build linux

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Result is how a program ended.
type Result struct {
	Stdout, Stderr string
	Code           int
	// PID is the process that it was.
	PID int
}

func (r Result) String() string {
	return fmt.Sprintf("exit code %d\nstdout:\n%s\nstderr:\n%s", r.Code, r.Stdout, r.Stderr)
}

// Run is how a program is run in a lab. It has no terminal to ask on.
type Run struct {
	// Stdin is its standard input.
	Stdin string
	// PIN, if not empty, can be read from descriptor 3.
	PIN string
	// Env is added to the lab's environment.
	Env []string
}

// Kubehsm runs the lab's program.
func (l *Lab) Kubehsm(ctx context.Context, args ...string) (Result, error) {
	return l.Run(ctx, Run{}, l.Binary, args...)
}

// KubehsmPIN runs the lab's program with the PIN from a descriptor.
func (l *Lab) KubehsmPIN(ctx context.Context, pin string, args ...string) (Result, error) {
	return l.Run(ctx, Run{PIN: pin}, l.Binary, append(args, "--pin-fd", "3")...)
}

// Kubectl runs the cluster's own kubectl as the lab's user.
func (l *Lab) Kubectl(ctx context.Context, args ...string) (Result, error) {
	return l.Run(ctx, Run{}, l.Cluster.Kubectl(), args...)
}

// Run runs a program in the lab. The error is not that of the program, which is
// in the result, but of running it.
func (l *Lab) Run(ctx context.Context, o Run, program string, args ...string) (Result, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = l.Dir
	cmd.Env = append(l.Env(), o.Env...)
	cmd.Stdin = strings.NewReader(o.Stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // our own terminal is not theirs
	cmd.WaitDelay = time.Minute                          // for who holds on to the pipes
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if o.PIN != "" {
		r, err := pipeWith(o.PIN + "\n")
		if err != nil {
			return Result{}, err
		}
		defer r.Close()
		cmd.ExtraFiles = []*os.File{r}
	}
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("run %s: %w", program, err)
	}
	err := cmd.Wait()
	res := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode(),
		PID: cmd.Process.Pid}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return res, fmt.Errorf("run %s %s: %w\n%s", program, strings.Join(args, " "), err, res)
	}
	return res, nil
}

// pipeWith is a pipe that holds content and ends after it.
func pipeWith(content string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.WriteString(content) // less than a pipe takes without a reader
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}
