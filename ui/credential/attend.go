package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/ui/prompt"
	"github.com/kubehsm/kubehsm/ui/waiting"
)

// startAttendant leaves a process behind that can ask on the client's terminal
// while its requests run: it stays in the client's process group, which the
// terminal belongs to. It has none of our streams, as client-go waits for the
// end of its plugin's output, and ends with the client.
func (c *Command) startAttendant(client process.ID) error {
	if err := keepDescriptors(); err != nil {
		return fmt.Errorf("attendant: %w", err)
	}
	cmd := exec.Command(c.Executable, "credential", "--attend", formatProcess(client))
	cmd.Dir = string(filepath.Separator)
	cmd.Env = slices.DeleteFunc(os.Environ(),
		func(kv string) bool { return strings.HasPrefix(kv, execcredential.EnvVar+"=") })
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("attendant: %w", err)
	}
	return cmd.Process.Release()
}

func formatProcess(p process.ID) string { return fmt.Sprintf("%d/%d", p.PID, p.Start) }

// ParseProcess reads the --attend flag: the number and the start time of a process.
func ParseProcess(s string) (process.ID, error) {
	pid, start, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(pid)
	from, err2 := strconv.ParseUint(start, 10, 64)
	p := process.ID{PID: n, Start: from}
	if !ok || err != nil || err2 != nil || !p.Known() {
		return process.ID{}, fmt.Errorf("%q is not a process", s)
	}
	return p, nil
}

// Attend asks on this terminal what the agent wants to ask about the client's
// requests, until the client or the agent ends.
func (c *Command) Attend(ctx context.Context, of process.ID) error {
	// ctrl-c is for the client; a prompt that is shown takes it too. Caught, it
	// does not end this process.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, terminalSignals...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if err := whenGone(of, cancel); err != nil {
		return fmt.Errorf("attend: %w", err)
	}
	dirs, err := home.FromEnv(c.Getenv)
	if err != nil {
		return err
	}
	a, err := client.Dial(ctx, dirs)
	if err != nil {
		return err
	}
	defer a.Close()
	a.Waiting = waiting.Shown(io.Discard) // the attendant shows questions only
	asker, done := c.prompter(dirs)
	defer done()
	err = a.Attend(ctx, of, attending(of, ask.From(asker), prompt.NewTerminal(prompt.TerminalOptions{}).Ask), nil)
	if errors.Is(err, message.ErrStopped) {
		return nil
	}
	return err
}

// attending asks on the client's terminal, by asker; terminal tells whether a prompt would
// be seen there. A touch line on a terminal that has to be borrowed would not be seen; a
// question can be asked there first.
func attending(client process.ID, asker, terminal ask.Func) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		switch {
		case q.Confirm != nil && q.Raw:
			return borrowing(ctx, client, asker, q)
		case q.Reach:
			a, err := terminal(ctx, q)
			if err != nil && q.Raw {
				err = hsm.ErrUnsupported
			}
			return a, err
		}
		return asker(ctx, q)
	}
}

// borrowing asks a question. "kubectl exec -it" has its terminal in raw
// mode when it connects, and waits for the answer before it reads: the terminal
// is borrowed for the question and given back for a yes. After a no kubectl
// restores it itself.
func borrowing(ctx context.Context, client process.ID, asker ask.Func, q ask.Question) (ask.Answer, error) {
	giveBack, err := borrow(client)
	if err != nil {
		return ask.Answer{}, err
	}
	a, err := asker(ctx, q)
	if a.Yes && err == nil {
		giveBack()
	}
	return a, err
}

// pollEvery is how often the client's life is looked at where the system does
// not tell of its end.
const pollEvery = 250 * time.Millisecond

// poll calls f when the process is gone.
func poll(client process.ID, f func()) {
	for client.Alive() {
		time.Sleep(pollEvery)
	}
	f()
}
