// Package link is a connection on which one end asks the other to do something, and is
// asked questions in turn until that is done: a client and the agent, or the agent and
// a worker. [Client] is the end that asks, [Server] is the end that answers, and [Asker]
// puts questions to the person at the client.
//
// A request is one JSON frame that begins with a [Header]. The server answers with any
// number of questions and signs of life, and then with one answer or [Failure]. Closing
// the connection cancels the request. The frames are package wire's. A secret exists
// only as raw bytes and is overwritten after use.
//
// Package link knows people's questions (package ask) and nothing of the operations.
// It is not part of package wire, which must not import what hsm does.
package link

import (
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// Header is what each request begins with.
type Header struct {
	// V is the protocol's version, set by [Client.Call].
	V  int    `json:"v"`
	Op string `json:"op"`
	// Beats says that the client understands signs of life.
	Beats bool `json:"beats,omitempty"`
	// Waits says that the client understands prompts that tell why it waits. It is set by
	// [Client.Call].
	Waits bool `json:"waits,omitempty"`
	// Libraries says that the client understands [ask.ForLibrary] among them. It is set by
	// [Client.Call].
	Libraries bool `json:"libraries,omitempty"`
	// Finishing says that the client understands when something must not be left half-way.
	// It is set by [Client.Call].
	Finishing bool `json:"finishing,omitempty"`
}

// Head returns h itself, where a message embeds it.
func (h *Header) Head() *Header { return h }

// Request is a message that embeds a [Header].
type Request interface{ Head() *Header }

// OK is the answer to an operation that has no other. Answers embed it.
type OK struct {
	OK bool `json:"ok,omitempty"`
}

// event is what a server sends before the answer, or a failure, which ends a request.
// One of its fields is set, but for Shared.
type event struct {
	Prompt  *prompt `json:"prompt,omitempty"`
	Done    int     `json:"done,omitempty"`    // the prompt of that id is over
	Offered bool    `json:"offered,omitempty"` // the person can be asked from now on
	Beat    bool    `json:"beat,omitempty"`    // a sign of life
	// Finishing: something has begun that must not be left half-way (1), or has ended (-1).
	Finishing int `json:"finishing,omitempty"`
	// Shared, in a sign of life: from now on others may write where prompts are shown.
	Shared bool     `json:"shared,omitempty"`
	Error  *Failure `json:"error,omitempty"`
}

// prompt asks the person at the client.
type prompt struct {
	ID      int                `json:"id"` // numbers start at 1
	PIN     *hsm.PINPrompt     `json:"pin,omitempty"`
	Touch   *hsm.TouchPrompt   `json:"touch,omitempty"`
	Confirm *hsm.ConfirmPrompt `json:"confirm,omitempty"`
	// Wait says why the client waits.
	Wait *ask.Wait `json:"wait,omitempty"`
	// Reach asks whether a touch would be seen.
	Reach bool `json:"reach,omitempty"`
	// Raw says that the client waits with its terminal in raw mode, see [ask.Question].
	Raw bool `json:"raw,omitempty"`
	// Shared says that others may write to the client's terminal, see [ask.Question].
	Shared bool `json:"shared,omitempty"`
}

// answer is the client's.
type answer struct {
	ID     int      `json:"id"`
	Yes    bool     `json:"yes,omitempty"`
	Secret bool     `json:"secret,omitempty"` // a secret frame follows
	Given  bool     `json:"given,omitempty"`  // see [ask.Answer]
	Error  *Failure `json:"error,omitempty"`
}
