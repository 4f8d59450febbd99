//go:build linux

// Command program is the adversary: a process that does what the test orders, see
// package play. It is called with the socket of the test and, if need be, with a
// credential in a file:
//
//	program SOCKET [CREDENTIAL]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/adversary/play"
)

// adversary is this process.
type adversary struct {
	conn       *play.Conn
	credential *play.Credential
	idle       *kept // the connection that keep has left open
	attending  chan string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "adversary:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("which socket?")
	}
	conn, err := play.Dial(args[0])
	if err != nil {
		return err
	}
	defer conn.Close() // the process ends
	a := &adversary{conn: conn, attending: make(chan string, 16)}
	if len(args) > 1 {
		if a.credential, err = play.Load(args[1]); err != nil {
			return err
		}
	}
	if err := conn.Send(play.Answer{ID: process.This()}); err != nil {
		return err
	}
	for {
		var o play.Order
		if err := conn.Receive(&o); err != nil {
			return nil // the test has hung up: that is the end
		}
		var answer play.Answer
		if err := a.do(context.Background(), o, &answer); err != nil {
			answer.Error = err.Error()
		}
		if err := conn.Send(answer); err != nil {
			return err
		}
	}
}

func (a *adversary) do(ctx context.Context, o play.Order, out *play.Answer) (err error) {
	verbs := map[string]func(context.Context, play.Order, *play.Answer) error{
		"claim": a.claim, "plugin": a.plugin, "take": a.take, "send": a.send, "raw": a.raw, "frames": a.frames,
		"keep": a.keep, "again": a.again, "resume": a.resume, "flight": a.flight, "attend": a.attend, "sign": a.sign,
		"name": a.name, "exec": a.exec, "spy": a.spy, "type": a.typeKeys, "squat": a.squat, "relay": a.relay,
		"child": a.child,
	}
	return verbs[o.Do](ctx, o, out)
}
