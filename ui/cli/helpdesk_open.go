package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
)

func (a *app) helpdeskOpen() *cobra.Command {
	var o *format
	var id, serial, sealed string
	var print bool
	c := a.command(&cobra.Command{
		Use:   "open --ticket-id ID --serial SERIAL",
		Short: "Open a PUK that was sealed to the key of a ticket",
		Long: `Opens a PUK that "kubehsm join --generate-puk" sealed, and shows it once. Only the user
and computer that made the ticket with --seal-puk can open it. The key for that is kept
for a week, and removed when you have kept the PUK.`,
		Example: `kubehsm helpdesk open --ticket-id abcdef --serial 1234567
kubehsm helpdesk open --ticket-id abcdef --serial 1234567 --sealed - --print < sealed.txt`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		text, err := a.handed(ctx, "sealed", sealed, sealedKind)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		puk, err := desk.NewTickets(env).OpenSealed(id, serial, text)
		if err != nil {
			return usage(err)
		}
		f := &freshSecret{ctx: ctx, what: "PUK", field: "puk", text: string(puk.Bytes()), secret: puk, print: print}
		doc := struct {
			Ticket string `json:"ticket"`
			Serial string `json:"serial"`
			PUK    string `json:"puk,omitempty"`
		}{Ticket: id, Serial: serial}
		if f.inDocument(o) {
			doc.PUK = f.text
			defer f.secret.Zero()
		}
		if err := f.show(a, o); err != nil {
			return err
		}
		if err := desk.NewTickets(env).ForgetSealKey(id); err != nil {
			return err
		}
		if o.value == "" {
			return nil
		}
		return a.emit(o, doc, nil)
	})
	c.Flags().StringVar(&id, "ticket-id", "", "`ID` of the ticket, see \"kubehsm helpdesk list\" (required)")
	c.Flags().StringVar(&serial, "serial", "", "`serial` number of the token (required)")
	c.Flags().StringVar(&sealed, "sealed", "", "`file` with the sealed PUK, - for standard input; asked for if missing")
	c.Flags().BoolVar(&print, "print", false, "write the PUK to standard output instead of the terminal")
	must(c.MarkFlagRequired("ticket-id"))
	must(c.MarkFlagRequired("serial"))
	o = output(c)
	return c
}
