//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Processes are the living processes of the lab's program, by their command lines.
func (l *Lab) Processes() (map[int]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // the process has ended
		}
		if line := strings.ReplaceAll(string(b), "\x00", " "); strings.HasPrefix(line, filepath.Dir(l.Binary)+"/") {
			found[pid] = line
		}
	}
	return found, nil
}

// Close ends the agent as a user does, and checks that no process of the lab's
// program is left. What is left is killed and is an error.
func (l *Lab) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	res, err := l.Kubehsm(ctx, "agent", "stop")
	if err != nil {
		return err
	}
	if res.Code != 0 {
		err = fmt.Errorf("kubehsm agent stop: %s", res)
	}
	for {
		left, perr := l.Processes()
		if perr != nil {
			return perr
		}
		if len(left) == 0 {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			for pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL) // the process may be gone
			}
			return fmt.Errorf("left running in the lab: %v", left)
		}
	}
}
