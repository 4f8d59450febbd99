package activity

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// Acts implements [screen.Actor]. Locking changes nothing that is kept, so that
// it goes in read-only mode too.
func (m *Model) Acts() screen.Acts {
	idle := screen.When(!m.running, "the agent is not running")
	r, ok := m.list.Selected()
	none := screen.When(!ok || m.open, "no record is selected")
	return screen.Acts{
		screen.On(screen.Action{Key: m.Keys.Lock, Reason: idle}, "agent lock",
			func() tea.Cmd { return screen.Operate(Lock(m.agent)) }),
		screen.On(screen.Action{Key: m.Keys.Stop, Reason: idle, Writes: true}, "agent stop",
			func() tea.Cmd {
				return screen.Operate(screen.Operation{Title: "Stop the agent", Command: "kubehsm agent stop", Writes: true,
					Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
						return insisted("Stopped", "the agent has ended",
							func(say func(string)) error { return m.agent.StopAgent(ctx, say) })
					}})
			}),
		screen.On(screen.Action{Key: keys.Letter("u", "start it at login"), Quiet: true}, "agent unit", m.unit),
		screen.On(screen.Action{Key: keys.As(m.Keys.Copy, "copy record"), Reason: none, Quiet: true}, "",
			func() tea.Cmd { return copyRecord(r) }),
		screen.On(screen.Action{Key: m.Keys.CopyPrint,
			Reason: screen.Because(none, screen.When(r.Key == "", "the record names no key")), Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CopyMsg{What: "fingerprint", Text: r.Key})
		}),
		screen.On(screen.Action{Key: m.Keys.Command, Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CommandMsg{Title: present.SameTitle,
				Lines: []string{"kubehsm agent status", "kubehsm audit -f"}})
		}),
	}
}

// Lock is the operation that locks all tokens.
func Lock(agent session.Agent) screen.Operation {
	return screen.Operation{Title: "Lock everything", Command: "kubehsm agent lock",
		Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
			return insisted("Locked", "locked: the next command asks for the PIN",
				func(say func(string)) error { return agent.LockAgent(ctx, say) })
		}}
}

func insisted(title, said string, do func(say func(string)) error) (screen.Report, error) {
	r := screen.Report{Said: said}
	err := do(func(sentence string) { r.Title, r.Lines = title, append(r.Lines, sentence) })
	if errors.Is(err, client.ErrNotRunning) {
		return screen.Report{Said: "the agent is not running: no token is unlocked"}, nil
	}
	return r, err
}

func copyRecord(r record) tea.Cmd {
	b, err := json.Marshal(r.Record)
	if err != nil {
		return screen.Send(screen.FailureMsg{Title: "Copy the record", Err: err})
	}
	return screen.Send(screen.CopyMsg{What: "record", Text: string(b)})
}

func (m *Model) unit() tea.Cmd {
	file, where, err := m.agent.AgentUnit(runtime.GOOS == "darwin")
	if err != nil {
		return screen.Send(screen.FailureMsg{Title: "Start it at login", Err: err})
	}
	lines := append(strings.Split(where, "\n"), "", "")
	return screen.Send(screen.TextMsg{Title: "Start the agent at login",
		Lines: append(lines, strings.Split(strings.TrimSpace(string(file)), "\n")...),
		What:  "file", Copy: string(file)})
}
