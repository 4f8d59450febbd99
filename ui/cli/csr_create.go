package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow"
)

// requestFlags are the flags that say what certificate to ask for.
type requestFlags struct {
	user, signer, reason string
	groups               []string
	expiration           time.Duration
	noAttestation        bool
}

func (r *requestFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&r.user, "user", "", "user `name` that the certificate is for (its CN)")
	f.StringArrayVar(&r.groups, "group", nil, "`group` that the user is in (an O); may be repeated")
	f.StringVar(&r.signer, "signer-name", "", "`name` of the signer; default "+csr.ClientSigner)
	f.DurationVar(&r.expiration, "expiration", 0, "`lifetime` to ask for, at least 10m; default the signer's")
	f.BoolVar(&r.noAttestation, "no-attestation", false, "leave the token's attestation of the key out of the request")
	f.StringVar(&r.reason, "reason", "", "`words` to the approver")
}

func (a *app) csrCreate() *cobra.Command {
	var o *format
	var key, name string
	var r requestFlags
	c := a.command(&cobra.Command{
		Use:   "create",
		Short: "File a request for a certificate, signed by a key on a token",
		Example: `kubehsm csr create --key 'pkcs11:token=trial;object=prod' --user jane --group dev
kubehsm csr create --context prod --key 'piv:serial=1234567;slot=9a' --user jane --expiration 24h`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		u, err := parseKey(key)
		if err != nil {
			return err
		}
		if r.user == "" {
			return ui.Usagef("--user is missing: who is the certificate for?")
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		if r.signer == "" {
			r.signer = csr.ClientSigner
		}
		v, err := env.CreateRequest(c.Context(), flow.RequestOptions{
			Name: name, Context: a.context, Key: u, User: r.user, Groups: r.groups,
			SignerName: r.signer, Expiration: r.expiration, Reason: r.reason, NoAttestation: r.noAttestation,
		}, a.prompter())
		if err != nil {
			return err
		}
		return a.emit(o, v, func(w *words) {
			requestWords(w, v)
			w.line("")
			w.line("It must be approved now; follow it with `%s csr wait %s`.", a.name(), v.Name)
		})
	})
	c.Flags().StringVar(&key, "key", "", "`URI` of the key, as `kubehsm key list` shows it (required)")
	c.Flags().StringVar(&name, "name", "", "`name` of the request; default made from user and key")
	r.bind(c.Flags())
	must(c.MarkFlagRequired("key"))
	o = output(c)
	return c
}

// requestWords shows a request as an approver should see it.
func requestWords(w *words, v flow.RequestView) {
	state := v.State
	if v.Reason != "" {
		state += " (" + v.Reason + ")"
	}
	w.fields(
		"Name", v.Name, "State", state, "Message", v.Message,
		"Asked by", v.Requester, "… groups", strings.Join(v.RequesterGroups, ", "), "Created", date(v.Created),
		"For user", v.User, "… groups", strings.Join(v.Groups, ", "),
		"Signer", v.SignerName, "Usages", strings.Join(v.Usages, ", "), "Lifetime", v.Expiration,
		"Key", v.Key, "Fingerprint", v.Fingerprint, "Attestation", v.Attestation, "Note", v.Note,
	)
	for _, warning := range v.Warnings {
		w.line("warning: %s", warning)
	}
}

// must is for set-up that only a programming mistake can fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
