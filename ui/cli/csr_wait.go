package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

type waitedDoc struct {
	Name        string    `json:"name"`
	Certificate string    `json:"certificate,omitempty"`
	Error       *errorDoc `json:"error,omitempty"`
}

func (a *app) csrWait() *cobra.Command {
	var o *format
	var timeout time.Duration
	c := a.inEnv(&cobra.Command{
		Use:   "wait REQUEST...",
		Short: "Wait for the decision on requests, and print the certificates",
		Long: `Waits until the certificates of requests are issued, and prints them as PEM, leaf
first, in the order of the names. It is an error if a request is denied, refused by
its signer or deleted, or if a request from this computer was replaced.`,
		Example: `kubehsm csr wait jane-1a2b3c4d > jane.pem
kubehsm csr wait jane-1a2b3c4d jane-5e6f7a8b --timeout 10m`,
		Args: someNames("request"),
	}, func(c *cobra.Command, args []string, env *env.Env) error {
		ctx := c.Context()
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		var say sync.Mutex
		report := func(s string) {
			say.Lock()
			defer say.Unlock()
			w := a.err()
			w.line("%s", s)
			_ = w.flush() // progress that cannot be written is lost
		}
		docs, errs := make([]waitedDoc, len(args)), make([]error, len(args))
		var waits sync.WaitGroup
		for i, name := range args {
			waits.Go(func() {
				pem, err := request.NewOwn(env).Wait(ctx, a.context, name, report)
				docs[i], errs[i] = waitedDoc{name, string(pem), errorDocOf(err)}, err
			})
		}
		waits.Wait()
		failed := errors.Join(errs...)
		if len(args) == 1 {
			if failed != nil {
				return errs[0]
			}
			return a.emit(o, docs[0], func(w *words) { w.block(docs[0].Certificate) })
		}
		err := a.emit(o, struct {
			Requests []waitedDoc `json:"requests"`
		}{docs}, func(w *words) {
			for _, d := range docs {
				w.block(d.Certificate)
			}
		})
		if err != nil {
			return err
		}
		return failed
	})
	c.Flags().DurationVar(&timeout, "timeout", 0, "time limit, a `duration` such as 1h; default none")
	c.ValidArgsFunction = offer(a.ownRequestNames, false)
	o = output(c)
	return c
}
