package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) certificateImport() *cobra.Command {
	var o *format
	var key, name string
	c := a.command(&cobra.Command{
		Use:   "import FILE",
		Short: "Store a certificate with its key on a token",
		Long: `Stores the first certificate of a PEM file with its key on the token. With
--enrollment, the certificate also completes an unfinished enrollment whose request
an admin filed for you. "kubehsm enroll" then continues it.`,
		Example: `kubehsm certificate import jane.pem --key 'pkcs11:token=trial;object=prod'
kubehsm certificate import - --enrollment prod-hsm < jane.pem`,
		Args: oneName("file"),
	}, func(c *cobra.Command, args []string) error {
		if key == "" && name == "" {
			return ui.Usagef("name the key with --key, or the unfinished enrollment with --enrollment")
		}
		var u hsm.URI
		if key != "" {
			var err error
			if u, err = parseKey(key); err != nil {
				return err
			}
		}
		pem, err := a.readAll(args[0])
		if err != nil {
			return err
		}
		keys, err := a.keys()
		if err != nil {
			return err
		}
		cert, err := keys.Import(c.Context(), u, name, pem, a.prompter())
		if err != nil {
			return err
		}
		d := certificateDocOf(cert.Leaf, cert.Chain...)
		return a.emit(o, d, func(w *words) { w.facts(present.CertificateFacts(cert.Leaf, time.Now())) })
	})
	c.Flags().StringVar(&key, "key", "", "`URI` of the key")
	c.Flags().StringVar(&name, "enrollment", "", "unfinished `enrollment` that the certificate is for")
	a.secretFD(c.Flags(), "management-key-fd", "a PIV card's management key, in hex,", isManagementKey)
	o = output(c)
	return c
}
