package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) csrForecast() *cobra.Command {
	var o *format
	var key string
	var r requestFlags
	c := a.command(&cobra.Command{
		Use:   "forecast",
		Short: "Check whether a request would be approved and signed",
		Long: `Checks whether a request would be approved and signed: whether you may file it, what
the signer accepts, whether the cluster signs client certificates and its API server
accepts them, whether the clock is right, and whether somebody else has the user name.
It asks the cluster and looks at earlier requests. Each result names its evidence, or
is unknown. Nothing is changed.

The exit code is 1 if the request is certain to be refused, else 0.`,
		Example: `kubehsm csr forecast --user jane --group dev
kubehsm csr forecast --key 'piv:serial=1234567;slot=9a' --user jane --expiration 8760h -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		options, err := r.options(a.context)
		if err != nil {
			return err
		}
		if key != "" {
			if options.Key, err = parseKey(key); err != nil {
				return err
			}
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		points, err := request.NewOwn(env).Forecast(c.Context(), options)
		if err != nil {
			return err
		}
		return errors.Join(a.emitForecast(o, points), request.ForecastRefusal(points))
	})
	c.Flags().StringVar(&key, "key", "", "`URI` of the key; without it, the forecast leaves out what depends on "+
		"the key")
	r.bind(c.Flags(), enrolling.OfRequest)
	o = output(c)
	return c
}

// emitForecast puts a forecast out, whatever it says.
func (a *app) emitForecast(o *format, points []csr.Point) error {
	doc := struct {
		Forecast []csr.Point `json:"forecast"`
	}{append([]csr.Point{}, points...)}
	return a.emit(o, doc, func(w *words) { forecastWords(w, points) })
}

// forecastWords shows a forecast, a point a line.
func forecastWords(w *words, points []csr.Point) {
	if len(points) == 0 {
		return
	}
	w.line("%s:", present.ForecastTitle)
	rows := make([][]string, len(points))
	for i, p := range present.Forecast(points) {
		rows[i] = []string{"  " + p.ID, p.Verdict.Words, p.Reason + p.Evidence}
	}
	w.rows(rows)
}

// needUser is for requests that cannot be without one.
func needUser(user string) error {
	if user == "" {
		return ui.Usagef("--user is missing: name the user of the certificate")
	}
	return nil
}
