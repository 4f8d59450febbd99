package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) certificateImport() *cobra.Command {
	var o *format
	var name string
	c := a.inEnv(&cobra.Command{
		Use:   "import FILE",
		Short: "Continue an unfinished enrollment with a certificate from a file",
		Long: `Takes the first certificate of a PEM file, and its chain, for an unfinished enrollment
whose request an admin filed for you. "kubehsm enroll" then continues the enrollment,
and stores the certificate with its key on the token.`,
		Example: "kubehsm certificate import - --enrollment prod-hsm < jane.pem",
		Args:    oneName("file"),
	}, func(c *cobra.Command, args []string, env *env.Env) error {
		pem, err := a.readAll(args[0])
		if err != nil {
			return err
		}
		cert, err := enrolling.Import(c.Context(), env, name, pem)
		if err != nil {
			return err
		}
		d := certificateDocOf(cert.Leaf, cert.Chain...)
		return a.emit(o, d, func(w *words) { w.facts(present.CertificateFacts(cert.Leaf, time.Now())) })
	})
	c.Flags().StringVar(&name, "enrollment", "", "unfinished `enrollment` that the certificate is for (required)")
	ensure(c.MarkFlagRequired("enrollment"))
	o = output(c)
	return c
}
