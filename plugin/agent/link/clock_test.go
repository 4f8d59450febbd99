package link

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// TestLimit: what a person takes to answer does not count as the server's time.
func TestLimit(t *testing.T) {
	const limit = 30 * time.Second
	for name, c := range map[string]struct {
		works, thinks time.Duration // time of the server before and after the question; time of the person
		want          error
	}{
		"in time":           {limit - time.Second, ask.Limit - time.Second, nil},
		"a server too slow": {limit + time.Second, 0, ErrSlow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				s := NewServer(t.Context(), ours, nil)
				asker := NewAsker(s)
				served := make(chan error, 1)
				go func() {
					served <- s.Serve(func(Received) error {
						time.Sleep(c.works)
						_, err := ask.Func(asker.Ask).Confirm(s.Context(), hsm.ConfirmPrompt{Question: "go on?"})
						if err != nil {
							return err
						}
						time.Sleep(c.works)
						return s.Answer(OK{OK: true})
					})
				}()
				person := func(context.Context, ask.Question) (ask.Answer, error) {
					time.Sleep(c.thinks)
					return ask.Answer{Yes: true}, nil
				}
				client := NewClient(theirs, nil)
				err := client.Call(t.Context(), &struct{ Header }{}, nil, Options{Prompter: person, Limit: limit})
				if !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				_ = client.Close() // an error closes it too
				<-served
				_ = ours.Close() // the reader ends with it
			})
		})
	}
}
