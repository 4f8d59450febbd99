package agent

import (
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// identify says for which program a session is. The plugin claims one, and the
// system must tell that this program has started the plugin, perhaps through others
// such as "sh -c": then kin are those that started the program in turn. Where the
// system tells nothing about the plugin, the client is one that is not known.
func identify(plugin, claimed process.ID) (client process.ID, kin []process.ID, err error) {
	if plugin.PID == 0 {
		return process.ID{PID: claimed.PID}, nil, nil
	}
	if plugin.Known() {
		all := append([]process.ID{plugin}, plugin.Ancestors()...)
		i := slices.IndexFunc(all, func(p process.ID) bool { // a plugin that is shown no /proc knows no start times
			return p == claimed || p.PID == claimed.PID && claimed.Start == 0
		})
		if i < 0 {
			i = inNamespace(all, claimed)
		}
		if i >= 0 {
			return all[i], all[i+1:], nil
		}
	}
	return process.ID{}, nil, hsm.WithHint(fmt.Errorf("%w: process %d asks for a session for process %d, which did not start it", ErrNotClient, plugin.PID, claimed.PID),
		"a session is made only for the program that runs `kubehsm credential`, while that program runs")
}

// inNamespace finds the claimed process by its number in the pid namespace of the
// plugin, which comes first, if that is another one than ours. A plugin whose
// parent is outside its namespace can claim none: it is the parent's.
func inNamespace(all []process.ID, claimed process.ID) int {
	_, depth := all[0].Inside()
	if depth == 0 {
		return -1
	}
	return slices.IndexFunc(all, func(p process.ID) bool {
		pid, at := p.Inside()
		return at == depth && pid == claimed.PID || at < depth && claimed.PID == 0
	})
}
