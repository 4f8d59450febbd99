// Package signing asks a running agent for signatures, for the external signer,
// which must start quickly: it is the agent's client without the rest.
package signing

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rsa"
	"net"
	"os"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// dialTime bounds the way to the agent, which is a moment's work.
const dialTime = 2 * time.Second

// Agent is the agent on a socket, or nobody.
type Agent struct {
	// Socket is the agent's.
	Socket string
	// Prompter shows that a touch is awaited. It is asked nothing.
	Prompter hsm.Prompter
	// Waiting, if not nil, shows why the signature waits, until done is called. It
	// returns at once, and may wait a moment before it shows anything.
	Waiting func(ask.Wait) (done func())
	// Client is whom signatures are for; zero is the process that started this one.
	Client process.ID
	// Command names the program with a PID, "" if it cannot; it is asked only if
	// there is an agent. Nil names none.
	Command func(pid int) string

	silence time.Duration // 0 is [wire.MaxSilence]
}

var _ externalsigner.Remote = Agent{}

// request and reply are what this needs of the agent's messages.
type request struct {
	V       int         `json:"v"`
	Op      string      `json:"op"`
	Client  process.ID  `json:"client,omitzero"`
	Purpose hsm.Purpose `json:"purpose,omitzero"`
	Beats   bool        `json:"beats"`
	Waits   bool        `json:"waits,omitempty"`
	Sign    *wire.Sign  `json:"sign"`
}

type reply struct {
	Prompt *struct {
		ID    int              `json:"id"`
		Touch *hsm.TouchPrompt `json:"touch"`
		Wait  *ask.Wait        `json:"wait"`
	} `json:"prompt"`
	Done   int          `json:"done"`
	Signed *wire.Signed `json:"signed"`
	Beat   bool         `json:"beat"`
	Error  *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
	} `json:"error"`
}

// Sign implements [externalsigner.Remote]. An agent that is not there, is
// suspended, is of another version, or would have to ask somebody, does not hold the key.
func (a Agent) Sign(ctx context.Context, u hsm.URI, digest []byte, opts crypto.SignerOpts) (signature []byte, held bool,
	err error) {
	conn := a.dial(ctx)
	if conn == nil {
		return nil, false, ctx.Err()
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // closing ends the reader
	client := a.Client
	if client == (process.ID{}) {
		client = process.Parent()
	}
	s := &wire.Sign{Key: u.String(), Digest: digest, Hash: uint(opts.HashFunc())}
	if pss, ok := opts.(*rsa.PSSOptions); ok {
		s.Salt = &pss.SaltLength
	}
	purpose := hsm.Purpose{Action: "sign in"}
	if a.Command != nil {
		purpose.Command = a.Command(client.PID)
	}
	err = wire.WriteJSON(conn, request{V: wire.Version, Op: wire.OpSign, Client: client, Purpose: purpose, Beats: true,
		Waits: a.Waiting != nil, Sign: s})
	if err != nil {
		return nil, false, ctx.Err()
	}
	shown, wait := map[int]func(){}, func() {}
	defer func() {
		for _, done := range shown {
			done()
		}
	}()
	for {
		var r reply
		f, err := wire.ReadWithin(conn, cmp.Or(a.silence, wire.MaxSilence))
		if err != nil || f.Decode(&r) != nil {
			return nil, false, ctx.Err()
		}
		switch {
		case r.Beat:
		case r.Prompt != nil && r.Prompt.Touch != nil:
			wait() // the touch is shown in its place
			if a.Prompter != nil {
				shown[r.Prompt.ID] = a.Prompter.Touch(ctx, *r.Prompt.Touch)
			}
		case r.Prompt != nil && r.Prompt.Wait != nil:
			if a.Waiting != nil {
				wait = a.Waiting(*r.Prompt.Wait)
				shown[r.Prompt.ID] = wait
			}
		case r.Prompt != nil:
			return nil, false, nil
		case r.Done != 0:
			if done := shown[r.Done]; done != nil {
				done()
			}
		case r.Signed != nil:
			return r.Signed.Signature, r.Signed.Held, nil
		case r.Error != nil && hsm.ErrorCode(hsm.FromCode(r.Error.Code, "",
			"")) != "": // an error of the token; other errors leave the signature to us
			return nil, true, hsm.FromCode(r.Error.Code, r.Error.Message, r.Error.Hint)
		default:
			return nil, false, nil
		}
	}
}

func (a Agent) dial(ctx context.Context) net.Conn {
	if _, err := os.Lstat(a.Socket); err != nil {
		return nil // most who sign here have no agent, and need not set up for the network
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := socket.Dial(ctx, a.Socket)
	if err != nil {
		return nil // nobody, or somebody else
	}
	return conn
}
