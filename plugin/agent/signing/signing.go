// Package signing asks a running agent for signatures, for the external signer, which
// signs by itself where the agent cannot.
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
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
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
	// Command names the program that started this one, "" if it cannot; it is asked
	// only if there is an agent. Nil names none.
	Command func() string

	silence time.Duration // 0 is [wire.MaxSilence]
}

var _ externalsigner.Remote = Agent{}

// Sign implements [externalsigner.Remote]. An agent that is not there, is
// suspended, is of another version, or would have to ask somebody, does not hold the key.
func (a Agent) Sign(ctx context.Context, u hsm.URI, digest []byte, opts crypto.SignerOpts) (signature []byte, held bool,
	err error) {
	conn := a.dial(ctx)
	if conn == nil {
		return nil, false, ctx.Err()
	}
	c := link.NewClient(conn, message.Codes())
	defer c.Close()
	q := &message.SignRequest{Header: link.Header{Op: wire.OpSign, Beats: true},
		Purpose: hsm.Purpose{Action: "sign in"},
		Sign:    &wire.Sign{Key: u.String(), Digest: digest, Hash: uint(opts.HashFunc())}}
	if pss, ok := opts.(*rsa.PSSOptions); ok {
		q.Sign.Salt = &pss.SaltLength
	}
	if a.Command != nil {
		q.Purpose.Command = a.Command()
	}
	call, end := context.WithCancel(ctx)
	defer end()
	show := ask.From(a.Prompter)
	touches := func(ctx context.Context, question ask.Question) (ask.Answer, error) {
		switch {
		case question.Touch == nil:
			end()
		case show != nil:
			return show(ctx, question)
		}
		return ask.Answer{}, hsm.ErrNoTerminal
	}
	var out message.SignAnswer
	err = c.Call(call, q, &out, link.Options{Prompter: touches, Waiting: a.Waiting,
		Silence: cmp.Or(a.silence, wire.MaxSilence)})
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case err == nil && out.Signed != nil:
		return out.Signed.Signature, out.Signed.Held, nil
	case call.Err() == nil && hsm.ErrorCode(err) != "": // an error of the token; other errors leave the signature to us
		return nil, true, err
	}
	return nil, false, nil
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
