//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// inARow is how many commands are run where signatures are counted: with a token
// that wants it each is a touch.
const inARow = 100

// fresh ends the agent and starts another, unlocked, that has signed nothing.
func fresh(ctx context.Context, l *lab.Lab) error {
	if _, err := lab.Succeeded(l.Kubehsm(ctx, "agent", "stop")); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	return l.Unlock(ctx)
}

// afterCommands is the agent's status after commands in a row.
func afterCommands(ctx context.Context, l *lab.Lab, command program) (message.Status, error) {
	if err := fresh(ctx, l); err != nil {
		return message.Status{}, err
	}
	for range inARow {
		if _, err := command.run(ctx); err != nil {
			return message.Status{}, err
		}
	}
	return l.Status(ctx)
}

// serial counts signatures, and weighs the agent that made them.
func (b *bench) serial(ctx context.Context) error {
	st, err := afterCommands(ctx, b.lab, b.get(b.lab.Kubeconfig, b.enrolled))
	if err != nil {
		return err
	}
	b.found(fmt.Sprintf("signatures of the token for %d kubectl commands in a row", inARow), "1", "%d", st.Signatures)
	b.found("resident memory of the agent right after them", "–", "%d MB", st.Memory>>20)
	select { // an idle agent returns memory
	case <-time.After(75 * time.Second):
	case <-ctx.Done():
	}
	if st, err = b.lab.Status(ctx); err != nil {
		return err
	}
	b.found("resident memory of the agent, idle for a minute", "–", "%d MB", st.Memory>>20)
	return b.weighTogether()
}

// weighTogether weighs the agent and its workers. What they share, of the program's file above all, counts once;
// what is their own alone is told too.
func (b *bench) weighTogether() error {
	processes, err := b.lab.Processes()
	if err != nil {
		return err
	}
	var together, own uint64
	for pid := range processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			var kB uint64
			name, value, _ := strings.Cut(line, ":")
			if _, err := fmt.Sscanf(value, "%d kB", &kB); err != nil {
				continue // the first line, which has the range of addresses
			}
			switch name {
			case "Pss":
				together += kB << 10
			case "Anonymous":
				own += kB << 10
			}
		}
	}
	b.found(fmt.Sprintf("the agent and its workers then, %d processes: together, and without pages of files", len(processes)),
		"45 MB", "%d MB, %d MB", together>>20, own>>20)
	return nil
}

// memory weighs the agent after some commands, and after thousands more, each of a client of its
// own: what it keeps of one of them would show.
func (b *bench) memory(ctx context.Context) error {
	if err := fresh(ctx, b.lab); err != nil {
		return err
	}
	client := program{path: "/bin/sh", args: []string{"-c", `"$0" credential --enrollment "$1" >/dev/null; exit $?`,
		b.lab.Plugin, b.enrolled}, env: append(b.lab.Env(), execInfo)}
	get := b.get(b.lab.Kubeconfig, b.enrolled)
	const first, more, atOnce = 500, 5000, 4
	weigh := func(times int) (uint64, error) {
		failed := failures(ctx, times, atOnce, client) + failures(ctx, times/20, atOnce, get)
		st, err := b.lab.Status(ctx)
		if err == nil && failed > 0 {
			err = fmt.Errorf("%d commands failed", failed)
		}
		return st.Memory, err
	}
	before, err := weigh(first)
	if err != nil {
		return err
	}
	after, err := weigh(more)
	if err != nil {
		return err
	}
	b.found(fmt.Sprintf("resident memory of the agent after %d commands of as many clients, and after %d more", first,
		more),
		"–", "%d MB, %d MB", before>>20, after>>20)
	return nil
}

// failures runs a program so many times, atOnce at a time, and returns how often it
// failed.
func failures(ctx context.Context, times, atOnce int, p program) int64 {
	var failed atomic.Int64
	var group errgroup.Group
	group.SetLimit(atOnce)
	for range times {
		group.Go(func() error {
			if _, err := p.run(ctx); err != nil {
				if failed.Add(1) == 1 {
					fmt.Fprintln(os.Stderr, "the first that failed:", err)
				}
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no error
	return failed.Load()
}
