package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/qr"
)

// ticketFlags are the flags of helpdesk ticket.
type ticketFlags struct {
	options        desk.TicketOptions
	policy, file   string
	spare, inverse bool
	yes            bool
}

func (a *app) helpdeskTicket() *cobra.Command {
	var o *format
	var f ticketFlags
	c := a.command(&cobra.Command{
		Use:   "ticket --for USER",
		Short: "Make a ticket, with which one user joins the cluster",
		Long: `Makes a ticket: one line with everything that "kubehsm join" needs. Until it expires, it
lets one user file one request for the certificate that it describes. You still
approve that request ("kubehsm helpdesk approve").

A ticket is a secret: send it over a channel that you trust, as text, as a file, or as
a QR code to photograph. -o text (default) prints it, -o qr draws it, and -o file
writes it to --file: an image if that ends in .png or .svg, else text.`,
		Example: `kubehsm helpdesk ticket --for jane --group dev --ttl 2h
kubehsm helpdesk ticket --for jane --policy attested,touch-always --serial 1234567 -o qr
kubehsm helpdesk ticket --for jane --name prod --spare -o file --file jane.png`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		var err error
		if f.options.Policy, err = ticket.ParsePolicy(f.policy); err != nil {
			return usage(fmt.Errorf("--policy: %w", err))
		}
		if f.options.User == "" {
			return ui.Usagef("--for is missing: name the user of the ticket")
		}
		if (o.value == "file") != (f.file != "") {
			return ui.Usagef("-o file and --file go together")
		}
		wanted := []desk.TicketOptions{f.options}
		if f.spare {
			spare, err := f.options.ForSpare()
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			wanted = append(wanted, spare)
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		if err := a.askTicket(c.Context(), env, f); err != nil {
			return usage(err)
		}
		files, err := f.reserve(len(wanted))
		if err != nil {
			return err
		}
		var made []desk.IssuedTicket
		var failed error
		for _, o := range wanted {
			var t desk.IssuedTicket
			if t, failed = desk.NewTickets(env).Make(c.Context(), a.context, o); failed != nil {
				failed = errors.Join(usage(failed), release(files[min(len(made), len(files)):]))
				break
			}
			made = append(made, t)
		}
		if len(made) == 0 {
			return failed
		}
		return errors.Join(failed, a.emitTickets(o, f, made)) // the first ticket is valid even if the spare failed
	})
	flags := c.Flags()
	flags.StringVar(&f.options.User, "for", "", "user `name` in the certificate (required)")
	flags.StringArrayVar(&f.options.Groups, "group", nil, "`group` of the user; may be repeated")
	flags.DurationVar(&f.options.TTL, "ttl", desk.DefaultTicketTTL,
		"lifetime of the ticket, a `duration` up to "+span.Limit(ticket.MaxTTL))
	flags.DurationVar(&f.options.Lifetime, "lifetime", 0,
		"`lifetime` of the certificate, at least 10m; default the signer's")
	flags.StringVar(&f.options.Signer, "signer", "", "name of the `signer`; default "+csr.ClientSigner)
	flags.StringVar(&f.policy, "policy", "",
		"requirements for the key, a `list` of "+strings.Join(ticket.PolicyNames(), ", "))
	annotate(flags, flagChoices, ticket.PolicyNames(), "policy")
	flags.StringVar(&f.options.Serial, "serial", "", "`serial` number of the token that must be used")
	flags.StringVar(&f.options.Name, "name", "", "`name` proposed for the user's kubeconfig context")
	flags.BoolVar(&f.spare, "spare", false, "make a second ticket, for a spare token")
	flags.StringVar(&f.file, "file", "",
		"`file` for -o file; the ticket for a spare token goes to one with -spare in its name")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask, even if the ticket cannot work yet")
	flags.BoolVar(&f.inverse, "light", false, "draw the QR code for a light terminal")
	ensure(c.MarkFlagRequired("for"))
	once(flags, "for")
	o = output(c, "text", "file", "qr")
	return c
}

// askTicket asks before a ticket is made that could not work yet. Where nobody can be asked, the
// ticket is made, and says why.
func (a *app) askTicket(ctx context.Context, env *env.Env, f ticketFlags) error {
	if f.yes || !isTerminal(a.Stderr) {
		return nil
	}
	against, err := desk.NewTickets(env).Obstacles(ctx, a.context, f.options.Signer)
	if err != nil || len(against) == 0 {
		return err
	}
	return a.confirmed(ctx, false, present.AskTicket(against))
}

func (a *app) emitTickets(o *format, f ticketFlags, made []desk.IssuedTicket) error {
	w := a.err()
	for i, t := range made {
		said := present.Ticket(t)
		if i > 0 {
			said[0].Facts[0].Name = "Spare ticket"
		}
		w.sections(said)
	}
	w.line("%s    %s", present.TicketTheirs, present.TicketYours)
	if err := w.flush(); err != nil {
		return err
	}
	switch o.value {
	case "file":
		for i, t := range made {
			if err := a.writeTicket(f, i, t); err != nil {
				return err
			}
		}
		return nil
	case "qr":
		for _, t := range made {
			drawn, err := qr.Draw(t.Text, f.inverse)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.Stdout, "%s\n%s\n", drawn, t.Text); err != nil {
				return err
			}
			if err := a.fitsCode(drawn); err != nil {
				return err
			}
		}
		return nil
	}
	doc := struct {
		Tickets []desk.IssuedTicket `json:"tickets"`
	}{made}
	plain := *o
	if plain.value == "text" {
		plain.value = ""
	}
	return a.emit(&plain, doc, func(w *words) {
		for _, t := range made {
			w.line("%s", t.Text)
		}
	})
}

// fitsCode says what size a QR code needs that the terminal is too small for.
func (a *app) fitsCode(drawn string) error {
	lines := strings.Split(strings.TrimSuffix(drawn, "\n"), "\n")
	columns, rows := utf8.RuneCountInString(lines[0]), len(lines)
	if w, h := terminalSize(a.Stdout); w == 0 || w >= columns && h > rows {
		return nil
	}
	w := a.err()
	w.line("The QR code needs a terminal of %d × %d (columns × rows); -o file --file NAME.png makes an image.",
		columns, rows+1)
	return w.flush()
}

// path is the i-th ticket's file.
func (f ticketFlags) path(i int) string {
	if i == 0 {
		return f.file
	}
	ending := filepath.Ext(f.file)
	return strings.TrimSuffix(f.file, ending) + "-spare" + ending
}

// reserve makes the files of n tickets, empty, so that none is made that cannot
// be written; they are in no other's way.
func (f ticketFlags) reserve(n int) (files []string, err error) {
	if f.file == "" {
		return nil, nil
	}
	for i := range n {
		if err := writeNew(f.path(i), nil); err != nil {
			return nil, errors.Join(err, release(files))
		}
		files = append(files, f.path(i))
	}
	return files, nil
}

// release removes files that were reserved in vain.
func release(files []string) error {
	var errs []error
	for _, path := range files {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}

// writeTicket writes the i-th ticket to its file, which only the user can read.
func (a *app) writeTicket(f ticketFlags, i int, t desk.IssuedTicket) error {
	path, content := f.path(i), []byte(t.Text+"\n")
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".png":
		content, err = qr.PNG(t.Text)
	case ".svg":
		content, err = qr.SVG(t.Text)
	}
	if err == nil {
		err = home.WriteFile(path, content)
	}
	if err != nil {
		return hint.Withf(err, "the ticket is made: end it with `kubehsm bootstrap-token delete %s`, then make "+
			"another", t.ID)
	}
	w := a.out()
	w.line("Wrote %s, good until %s", path, t.Expires.Local().Format(time.DateTime))
	return w.flush()
}
