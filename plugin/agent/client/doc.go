// Package client is the agent as other programs of ours see it: [Ensure] finds or starts it,
// and ends one of an older program where nothing is open; [Lock] and [Stop] also end one that
// does not answer. A client lends the agent its terminal for the questions that come up while
// it is asked for something.
//
// It knows messages and processes, and nothing of what is inside the agent.
package client
