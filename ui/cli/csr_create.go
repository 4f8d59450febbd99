package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
)

type requestFlags struct{ optionFlags }

func (r *requestFlags) options(kubeContext string) (enrolling.Options, error) {
	if err := needUser(r.given.User); err != nil {
		return enrolling.Options{}, err
	}
	o, err := r.read()
	o.Context = kubeContext
	o.FillDefaults()
	return o, err
}

func (a *app) csrCreate() *cobra.Command {
	var o *format
	var keys []string
	var name string
	var plan bool
	var r requestFlags
	c := a.command(&cobra.Command{
		Use:   "create",
		Short: "File requests for certificates, signed by keys on tokens",
		Long: `Signs a request with a key on a token and files it. After a crash, the same command
with --name continues. With several --key, files one request for each key, as for a
token and its spare.`,
		Example: `kubehsm csr create --key 'pkcs11:token=trial;object=prod' --user jane --group dev
kubehsm csr create --key 'piv:serial=1234567;slot=9a' --user jane --dry-run
kubehsm csr create --context prod --key 'piv:serial=1234567;slot=9a' --user '{login}' --dns-name '{host}'`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		options, err := r.options(a.context)
		if err != nil {
			return err
		}
		all := make([]enrolling.Options, len(keys))
		for i, k := range keys {
			all[i] = options
			if all[i].Key, err = parseKey(k); err != nil {
				return err
			}
		}
		if name != "" && len(keys) > 1 {
			return ui.Usagef("--name names one request, and there are %d keys", len(keys))
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		if plan {
			points, err := request.NewOwn(env).Forecast(c.Context(), all[0])
			if err != nil {
				return err
			}
			err = a.emitForecast(o, points)
			if !options.AcceptForecast {
				err = errors.Join(err, request.ForecastRefusal(points))
			}
			return err
		}
		var views []request.View
		var failed error // the requests before the failed one are filed
		for _, options := range all {
			var v request.View
			if v, failed = request.NewOwn(env).Create(c.Context(), name, options, a.prompter()); failed != nil {
				break
			}
			views = append(views, v)
		}
		if len(views) == 0 {
			return failed
		}
		return errors.Join(failed, a.emit(o, requestsDoc(views), func(w *words) {
			for _, v := range views {
				requestWords(w, v, present.Filed(v, time.Now()))
				w.line("")
				w.line("It must be approved now; follow it with `%s csr wait %s`.", a.name(), v.Name)
			}
		}))
	})
	c.Flags().StringArrayVar(&keys, "key", nil,
		"`URI` of the key, see \"kubehsm key list\" (required); may be repeated")
	c.Flags().StringVar(&name, "name", "", "`name` of the request; default a name made from user and key")
	c.Flags().BoolVar(&plan, "dry-run", false, "show the forecast and file nothing; fail if the request is certain "+
		"to be refused")
	r.bind(c.Flags(), enrolling.OfRequest)
	r.acceptRisk(c.Flags(), "accept a `risk`: forecast files a request that is certain to be refused")
	ensure(c.MarkFlagRequired("key"))
	o = output(c)
	return c
}

func requestsDoc(views []request.View) any {
	if len(views) == 1 {
		return views[0]
	}
	return struct {
		Requests []request.View `json:"requests"`
	}{views}
}

func requestWords(w *words, v request.View, sections []present.Section) {
	sections[0].Facts = append([]present.Fact{{Name: "Name", Value: text.Clean(v.Name)}}, sections[0].Facts...)
	w.sections(sections)
	for i, l := range present.Verdicts(v) {
		if i == 0 {
			w.line("")
		}
		word := "warning"
		if l.Level == present.Bad {
			word = "refused"
		}
		w.line("%s: %s", word, l.Words)
	}
}

// ensure is for set-up that only a programming mistake can fail.
func ensure(err error) {
	if err != nil {
		panic(err)
	}
}
