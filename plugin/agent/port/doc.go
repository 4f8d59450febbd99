// Package port keeps the bridge's port while no agent runs: a process of its own holds
// the listening socket for the programs that have a session ([Serve]), and hands it
// over to the next agent ([Take]). It has no key and no secret, and knows of the agent
// only how one is started.
package port
