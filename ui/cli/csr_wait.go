package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) csrWait() *cobra.Command {
	var o *format
	var timeout time.Duration
	c := a.command(&cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until a request is decided, and print the certificate",
		Long: `Follows a request until its certificate is issued, and prints that as PEM, leaf
first. A request that is denied, refused by its signer or deleted is an error.`,
		Example: `kubehsm csr wait jane-1a2b3c4d > jane.pem
kubehsm csr wait jane-1a2b3c4d --timeout 10m`,
		Args: oneName("request"),
	}, func(c *cobra.Command, args []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
		ctx := c.Context()
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		pem, err := env.WaitRequest(ctx, a.context, args[0], func(s string) {
			w := a.err()
			w.line("%s", s)
			_ = w.flush() // nobody reads the progress then
		})
		if err != nil {
			return err
		}
		doc := struct {
			Name        string `json:"name"`
			Certificate string `json:"certificate"`
		}{args[0], string(pem)}
		return a.emit(o, doc, func(w *words) { w.block(string(pem)) })
	})
	c.Flags().DurationVar(&timeout, "timeout", 0, "how `long` to wait; default until it is interrupted")
	o = output(c)
	return c
}
