package cli

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) certificateShow() *cobra.Command {
	var o *format
	var key, file string
	c := a.command(&cobra.Command{
		Use:   "show [ENROLLMENT]",
		Short: "Show the certificate of an enrollment, of a key on a token, or in a file",
		Example: `kubehsm certificate show
kubehsm certificate show prod-hsm -o pem
kubehsm certificate show --key 'piv:serial=1234567;slot=9a'
kubehsm certificate show -f jane.pem`,
		Args: cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		leaf, chain, err := a.findCertificate(c.Context(), name, key, file)
		if err != nil {
			return err
		}
		d := certificateDocOf(leaf, chain...)
		if o.value == "pem" {
			w := a.out()
			w.block(d.PEM)
			return w.flush()
		}
		return a.emit(o, d, func(w *words) { w.facts(present.CertificateFacts(leaf, time.Now())) })
	})
	c.Flags().StringVar(&key, "key", "", "`URI` of a key, to take its certificate on the token")
	c.Flags().StringVarP(&file, "file", "f", "", "PEM `file` with the certificate; - for standard input")
	c.MarkFlagsMutuallyExclusive("key", "file")
	o = output(c, "pem")
	return c
}

func (a *app) findCertificate(ctx context.Context, name, key, file string) (*x509.Certificate, []*x509.Certificate,
	error) {
	switch {
	case name != "" && (key != "" || file != ""):
		return nil, nil, ui.Usagef("name an enrollment, or use --key or --file, not both")
	case file != "":
		b, err := a.readAll(file)
		if err != nil {
			return nil, nil, err
		}
		cert, err := csr.ParseCertificate(b)
		if err != nil {
			return nil, nil, err
		}
		return cert.Leaf, cert.Chain, nil
	case key != "":
		keys, u, err := a.oneKey(key)
		if err != nil {
			return nil, nil, err
		}
		leaf, err := keys.Certificate(ctx, u)
		return leaf, nil, err
	}
	env, e, err := a.enrolled(ctx, []string{name})
	if err != nil {
		return nil, nil, err
	}
	all, err := env.Enrollments().Certificate(e)
	if err != nil {
		return nil, nil, err
	}
	return all[0], all[1:], nil
}
