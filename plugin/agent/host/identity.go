package host

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// identify says for which program a session is. The plugin claims one, and the
// system must tell that this program has started the plugin, perhaps through others
// such as "sh -c": then kin returns those that started the program in turn, as they were
// when it was first called. Where the system tells nothing about the plugin, the client
// is one that is not known, and kin nil.
func identify(plugin, claimed process.ID) (client process.ID, kin func() []process.ID, err error) {
	if plugin.PID == 0 {
		return process.ID{PID: claimed.PID}, nil, nil
	}
	if client, ok := claimedBy(plugin, claimed); ok {
		return client, sync.OnceValue(func() []process.ID { return slices.Collect(client.Ancestors()) }), nil
	}
	return process.ID{}, nil, hint.With(
		fmt.Errorf("%w: process %d asks for a session for process %d, which did not start it", message.ErrNotClient,
			plugin.PID, claimed.PID),
		"a session is made only for the program that runs `kubehsm credential`, while that program runs")
}

// claimedBy finds the claimed process among the plugin and those that started it.
func claimedBy(plugin, claimed process.ID) (client process.ID, ok bool) {
	if !plugin.Known() {
		return client, false
	}
	// A plugin that does not say when the process began means itself or its parent. In a pid namespace of its own it
	// has another number for it, which may be that of an ancestor here.
	is := func(p process.ID) bool { return p == claimed || p.PID == claimed.PID && claimed.Start == 0 }
	if is(plugin) {
		return plugin, true
	}
	all := []process.ID{plugin}
	for p := range plugin.Ancestors() {
		if p == claimed || len(all) == 1 && is(p) {
			return p, true
		}
		all = append(all, p)
	}
	if i := inNamespace(all, claimed); i >= 0 {
		return all[i], true
	}
	return client, false
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
