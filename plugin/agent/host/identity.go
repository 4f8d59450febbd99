package host

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// maxKin bounds how far above the process that has started the plugin the client may be.
const maxKin = 3

// identify says for which program a session is: own, the one that asks, or else its parent. kin
// are those that have started that in turn, as far as they are the same user's: one of them
// is the client if a shell is between it and the plugin. Where the system tells nothing, the client is not known.
func identify(plugin process.ID, own bool, _ hsm.Purpose) (client process.ID, kin []process.ID, err error) {
	switch {
	case plugin.PID == 0 && runtime.GOOS == "linux":
		return client, nil, hint.With(fmt.Errorf("%w: the kernel does not show the agent which process asks",
			message.ErrNotClient), "if the agent or the program runs in a container, run both in the same one, or outside")
	case plugin.PID == 0:
		return client, nil, nil
	case own:
		return plugin, nil, nil
	}
	if client, err = startedBy(plugin); err != nil {
		return process.ID{}, nil, err
	}
	for p := client; len(kin) < maxKin; {
		p, err = startedBy(p)
		if errors.Is(err, message.ErrNotClient) {
			break
		}
		if err != nil {
			return process.ID{}, nil, err
		}
		kin = append(kin, p)
	}
	return client, kin, nil
}

// startedBy is the process of this user that has started p. Errors: [message.ErrNotClient] if
// there is none, or the system's.
func startedBy(p process.ID) (process.ID, error) {
	parent, err := p.Parent()
	if err == nil {
		err = process.CheckUser(parent.PID)
	}
	if errors.Is(err, process.ErrEnded) || errors.Is(err, process.ErrOtherUser) {
		return process.ID{}, hint.With(fmt.Errorf("%w: process %d has none that started it: %w", message.ErrNotClient, p.PID, err),
			"a session is made only for the program that runs `kubehsm credential`, while that program runs")
	}
	if err != nil {
		err = fmt.Errorf("which program started process %d cannot be found now: %w", p.PID, err)
	}
	return parent, err
}
