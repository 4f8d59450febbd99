package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
)

// completionTime is how long a person waits for a list behind the tab key, at most.
const completionTime = 2 * time.Second

// completing lists what may stand somewhere. It asks for no PIN and reports no error: then there is nothing to offer.
type completing func(ctx context.Context) []string

// complete has shells complete what flags and arguments take, by the names that their values have in the help. They
// offer
// files only where a file is meant.
func (a *app) complete(root *cobra.Command) {
	for _, c := range everyCommand(root) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				if list, files := a.flagValues(f); !files {
					ensure(c.RegisterFlagCompletionFunc(f.Name, offer(list, isList(f))))
				}
			})
		}
		if c.HasSubCommands() {
			continue
		}
		if c.ValidArgsFunction != nil {
			continue
		}
		word, repeats := argument(c)
		list, files := a.values(word)
		if files {
			continue
		}
		first := offer(list, false)
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 && !repeats {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return first(c, args, typed)
		}
	}
}

// argument is the name of a command's argument in its usage line, "" without one, and whether there may be several.
func argument(c *cobra.Command) (name string, repeats bool) {
	words := strings.Fields(c.Use)
	if len(words) < 2 || strings.HasPrefix(words[1], "--") {
		return "", false
	}
	name, repeats = strings.CutSuffix(strings.Trim(words[1], "[]"), "...")
	return strings.ToLower(name), repeats
}

// flagValues are the values of a flag, as those of [app.values].
func (a *app) flagValues(f *pflag.Flag) (list completing, files bool) {
	words := f.Annotations[flagChoices]
	if words == nil {
		words = choicesIn(f.Usage)
	}
	value := annotated(f, flagValue)
	switch {
	case words != nil:
		return func(context.Context) []string { return words }, false
	case value == "URI" && f.Name == "key":
		return a.keyURIs, false
	case value == "URI" && f.Name != "uri":
		return a.tokenURIs, false
	}
	return a.values(value)
}

// values are what may stand for a value of this name. files says that it is a file, which the shell knows. The list
// of a
// free text, and of what is not known here, is empty.
func (a *app) values(name string) (list completing, files bool) {
	switch name {
	case "file", "path":
		return nil, true
	case "context":
		return a.contextNames, false
	case "cluster":
		return a.clusterNames, false
	case "enrollment":
		return a.enrollmentNames, false
	case "slot":
		return slots, false
	case "signer":
		return func(context.Context) []string { return []string{csr.ClientSigner} }, false
	case "serial:NUMBER":
		return a.serialRisks, false
	case "request":
		return a.requestNames, false
	case "set":
		return func(context.Context) []string { return desk.RBACSets() }, false
	}
	return nil, false
}

// isList reports whether a flag takes several values with commas between them.
func isList(f *pflag.Flag) bool {
	return f.Value.Type() == "stringSlice" || annotated(f, flagValue) == "list"
}

// choicesIn reads "what it is: one, two (default), three" and "one, two or three", up to a semicolon.
func choicesIn(usage string) []string {
	words, _, _ := strings.Cut(usage[strings.LastIndex(usage, ": ")+1:], ";")
	all := strings.Split(strings.ReplaceAll(words, " or ", ", "), ", ")
	for i, w := range all {
		all[i] = strings.TrimSuffix(strings.TrimSpace(w), " (default)")
		if !oneWord.MatchString(all[i]) {
			return nil
		}
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

var oneWord = regexp.MustCompile(`^[a-z0-9-]+$`)

// plain reports whether no shell understands s as anything but a word. Other names are not offered: the scripts of some
// shells evaluate them.
func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_.:@/=;?%+,-", r)
	})
}

// offer has a shell offer what begins with what is typed, and no files. In a list that is what follows the last comma.
func offer(list completing, commas bool) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		if list == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTime)
		defer cancel()
		before, directive := "", cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder
		if commas {
			before = typed[:strings.LastIndex(typed, ",")+1]
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		var found []string
		for _, s := range list(ctx) {
			value, _, _ := strings.Cut(s, "\t") // a description may follow
			if plain(value) && strings.HasPrefix(before+value, typed) {
				found = append(found, before+s)
			}
		}
		return found, directive
	}
}

func (a *app) contextNames(ctx context.Context) []string {
	return a.fromKubeconfig(ctx, func(k kubeconfig.Context) string { return k.Name })
}

func (a *app) clusterNames(ctx context.Context) []string {
	return a.fromKubeconfig(ctx, func(k kubeconfig.Context) string { return k.Cluster.Name })
}

func (a *app) fromKubeconfig(ctx context.Context, name func(kubeconfig.Context) string) []string {
	var names []string
	contexts, _ := kubeconfig.DefaultRules(a.kubeconfig).List(ctx) // files that cannot be read are left out
	for _, k := range contexts {
		names = append(names, name(k))
	}
	return unique(names)
}

// enrollments are those that can be read.
func (a *app) enrollments() []enrollment.Enrollment {
	dirs, err := a.dirs()
	if err != nil {
		return nil
	}
	all, _ := enrollment.NewStore(dirs).List()
	return all
}

func (a *app) enrollmentNames(context.Context) []string {
	var names []string
	for _, e := range a.enrollments() {
		names = append(names, e.Name)
	}
	return names
}

// keyURIs are those of keys that are enrolled: others take a look into the token.
func (a *app) keyURIs(context.Context) []string {
	var uris []string
	for _, e := range a.enrollments() {
		uris = append(uris, e.Key.String())
	}
	return unique(uris)
}

// tokenURIs are those of tokens that are present, and of the enrolled.
func (a *app) tokenURIs(ctx context.Context) []string {
	var uris []string
	for _, e := range a.enrollments() {
		uris = append(uris, e.Key.TokenOnly().String())
	}
	env, err := a.env()
	if err != nil {
		return uris
	}
	for _, d := range env.Drivers {
		listing, err := d.List(ctx)
		if err != nil {
			continue
		}
		for _, t := range listing.Tokens {
			uris = append(uris, t.URI().String())
		}
	}
	return unique(uris)
}

// slots are those of PIV cards, with what each is for.
func slots(context.Context) []string {
	all := hsm.PIVSlots()
	for i, id := range all {
		all[i] += "\t" + present.Purpose(id)
	}
	return all
}

// serialRisks are the values of --accept-risk for the tokens that are present.
func (a *app) serialRisks(ctx context.Context) []string {
	var risks []string
	for _, uri := range a.tokenURIs(ctx) {
		if u, err := hsm.ParseURI(uri); err == nil && u.Serial != "" {
			risks = append(risks, riskPrefix+u.Serial)
		}
	}
	return unique(risks)
}

// ownRequestNames are the requests that were filed from here with the context's cluster.
func (a *app) ownRequestNames(ctx context.Context) []string {
	env, err := a.env()
	if err != nil {
		return nil
	}
	server, err := cluster.Access{Env: env}.Server(ctx, a.context)
	if err != nil {
		return nil
	}
	var names []string
	requests, _ := enrolling.NewStore(env).Requests(server) // requests that cannot be read are left out
	for _, r := range requests {
		names = append(names, r.Name)
	}
	return unique(names)
}

// requestNames are the own requests and those that wait in the context's cluster, if its credential is in the
// kubeconfig
// or a file: a program could ask for a PIN.
func (a *app) requestNames(ctx context.Context) []string {
	names := a.ownRequestNames(ctx)
	env, err := a.env()
	if err != nil {
		return names
	}
	c, err := env.Rules().Get(ctx, a.context)
	kinds := []kubeconfig.UserKind{kubeconfig.UserKeyFile, kubeconfig.UserKeyData, kubeconfig.UserToken,
		kubeconfig.UserTokenFile}
	if err != nil || !slices.Contains(kinds, c.User.Kind) {
		return names
	}
	pending, err := request.NewRequests(env).List(ctx, a.context, request.Filter{Pending: true})
	if err != nil {
		return names
	}
	for v, err := range pending {
		if err != nil {
			break
		}
		names = append(names, v.Name)
	}
	return unique(names)
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
