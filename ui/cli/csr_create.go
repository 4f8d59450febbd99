package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
)

// requestFlags are the flags that say what certificate to ask for.
type requestFlags struct {
	user, signer, reason string
	groups, labels       []string
	names                enrolling.AltNames
	expiration           time.Duration
	noAttestation        bool
}

func (r *requestFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&r.user, "user", "", "user `name` that the certificate is for (its CN); {login}, {host}, {serial}, {token} and {context} are filled in, here and in the other names")
	once(f, "user")
	f.StringArrayVar(&r.groups, "group", nil, "`group` that the user is in (an O); may be repeated")
	f.StringArrayVar(&r.names.DNS, "dns-name", nil, "DNS `name` to ask for beside the user (a SAN); may be repeated")
	f.StringArrayVar(&r.names.Email, "email", nil, "e-mail `address` to ask for; may be repeated")
	f.StringArrayVar(&r.names.IP, "ip", nil, "IP `address` to ask for; may be repeated")
	f.StringArrayVar(&r.names.URI, "uri", nil, "`URI` to ask for; may be repeated")
	f.StringArrayVar(&r.labels, "request-label", nil, "`key=value` to label the request with; may be repeated")
	f.StringVar(&r.signer, "signer-name", "", "`name` of the signer; default "+csr.ClientSigner)
	f.DurationVar(&r.expiration, "expiration", 0, "`lifetime` to ask for, at least 10m; default the signer's")
	f.BoolVar(&r.noAttestation, "no-attestation", false, "leave the token's attestation of the key out of the request")
	f.StringVar(&r.reason, "reason", "", "`words` to the approver")
}

// labelMap reads the labels.
func (r *requestFlags) labelMap() (map[string]string, error) {
	var m map[string]string
	for _, l := range r.labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, ui.Usagef("--request-label: %q is not of the form key=value", l)
		}
		if m == nil {
			m = map[string]string{}
		}
		m[k] = v
	}
	return m, nil
}

// options are those of a request for a key that is there.
func (r *requestFlags) options(kubeContext string) (request.Options, error) {
	if err := needUser(r.user); err != nil {
		return request.Options{}, err
	}
	labels, err := r.labelMap()
	signer := r.signer
	if signer == "" {
		signer = csr.ClientSigner
	}
	return request.Options{
		Context: kubeContext, User: r.user, Groups: r.groups, Names: r.names, Labels: labels,
		SignerName: signer, Expiration: r.expiration, Reason: r.reason, NoAttestation: r.noAttestation,
	}, err
}

func (a *app) csrCreate() *cobra.Command {
	var o *format
	var keys, risks []string
	var name string
	var plan bool
	var r requestFlags
	c := a.command(&cobra.Command{
		Use:   "create",
		Short: "File requests for certificates, signed by keys on tokens",
		Long: `Signs a request with a key on a token and files it. It is recorded before it is
filed: the same command with --name goes on after a crash. Several --key file one
request each, for a token and its spare say.`,
		Example: `kubehsm csr create --key 'pkcs11:token=trial;object=prod' --user jane --group dev
kubehsm csr create --key 'piv:serial=1234567;slot=9a' --user jane --dry-run
kubehsm csr create --context prod --key 'piv:serial=1234567;slot=9a' --user '{login}' --dns-name '{host}' --expiration 24h`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		options, err := r.options(a.context)
		if err != nil {
			return err
		}
		for _, risk := range risks {
			if risk != enrolling.RiskForecast {
				return ui.Usagef("--accept-risk: %q is no risk of a request; there is %s", risk, enrolling.RiskForecast)
			}
			options.AcceptForecast = true
		}
		all := make([]request.Options, len(keys))
		for i, k := range keys {
			all[i] = options
			if all[i].Key, err = parseKey(k); err != nil {
				return err
			}
		}
		if name != "" && len(keys) > 1 {
			return ui.Usagef("--name names one request, and there are %d keys", len(keys))
		}
		all[0].Name = name
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
		var failed error // those before it are filed
		for _, options := range all {
			var v request.View
			if v, failed = request.NewOwn(env).Create(c.Context(), options, a.prompter()); failed != nil {
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
	c.Flags().StringArrayVar(&keys, "key", nil, "`URI` of the key, as `kubehsm key list` shows it (required); may be repeated")
	c.Flags().StringVar(&name, "name", "", "`name` of the request; default made from user and key")
	c.Flags().BoolVar(&plan, "dry-run", false, "show the forecast, fail if it is a certain refusal, and file nothing")
	c.Flags().StringSliceVar(&risks, "accept-risk", nil, "file also what is certain to be refused: `forecast`")
	r.bind(c.Flags())
	must(c.MarkFlagRequired("key"))
	o = output(c)
	return c
}

// requestsDoc is one request, or a list of several.
func requestsDoc(views []request.View) any {
	if len(views) == 1 {
		return views[0]
	}
	return struct {
		Requests []request.View `json:"requests"`
	}{views}
}

// requestWords shows a request as an approver should see it.
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

// must is for set-up that only a programming mistake can fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
