package cli

import (
	"encoding/pem"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
)

func (a *app) certificateExport() *cobra.Command {
	var o *format
	var key, to string
	var overwrite, der bool
	c := a.command(&cobra.Command{
		Use:   "export [ENROLLMENT]",
		Short: "Write a certificate, and its chain, to a file",
		Long: `Writes the certificate of an enrollment, with its chain, or of a key on a token as PEM,
leaf first; with --der the leaf alone as DER. A certificate is public; the key stays where it is.`,
		Example: `kubehsm certificate export prod-hsm --to jane.pem
kubehsm certificate export --key 'piv:serial=12345678;slot=9a' --der --to jane.cer
kubehsm certificate export > jane.pem`,
		Args: cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		if overwrite && to == "" {
			return ui.Usagef("--overwrite: name the file with --to")
		}
		leaf, chain, err := a.findCertificate(c.Context(), name, key, "")
		if err != nil {
			return err
		}
		d := certificateDocOf(leaf, chain...)
		b := []byte(d.PEM)
		if der {
			b = leaf.Raw
		}
		if to != "" {
			if err := writeNew(to, b, overwrite); err != nil {
				return err
			}
		}
		switch {
		case o.value != "":
			return a.emit(o, d, nil)
		case to != "":
			w := a.err()
			w.line("The certificate of %s is in %s.", d.User, to)
			return w.flush()
		}
		_, err = a.Stdout.Write(b)
		return err
	})
	c.Flags().StringVar(&key, "key", "", "`URI` of a key, to take its certificate on the token")
	c.Flags().StringVar(&to, "to", "", "`file` to write to; default standard output")
	c.Flags().BoolVar(&overwrite, "overwrite", false, "replace an existing file")
	c.Flags().BoolVar(&der, "der", false, "write the leaf certificate alone, as DER")
	o = output(c)
	return c
}

// certificatePEM is one certificate as PEM.
func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
