package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// completionTime bounds how long a person waits for a list behind the tab key.
const completionTime = 2 * time.Second

// completing lists what may stand somewhere. It asks for no PIN, speaks to no
// cluster and tells no error: then there is nothing to offer.
type completing func(ctx context.Context) []string

// complete has shells complete what flags and arguments take: names from the
// kubeconfig, of enrollments, and the tokens that are present; choices as the flag's
// own words give them. Where a file is meant the shell does it.
func (a *app) complete(root *cobra.Command) {
	byPlaceholder := map[string]completing{
		"CONTEXT": a.contextNames, "ENROLLMENT": a.enrollmentNames, "[CONTEXT]": a.contextNames, "[ENROLLMENT]": a.enrollmentNames,
	}
	for _, c := range everyCommand(root) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				if list := a.flagValues(f); list != nil {
					_ = c.RegisterFlagCompletionFunc(f.Name, offer(list)) // it fails for a flag that is not there
				}
			})
		}
		for _, word := range strings.Fields(c.Use)[1:] {
			if list := byPlaceholder[word]; list != nil {
				first := offer(list)
				c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
					if len(args) > 0 {
						return nil, cobra.ShellCompDirectiveNoFileComp
					}
					return first(c, args, typed)
				}
			}
		}
	}
}

// flagValues says what f takes, nil if the shell or nobody knows.
func (a *app) flagValues(f *pflag.Flag) completing {
	if words := choicesIn(f.Usage); words != nil {
		return func(context.Context) []string { return words }
	}
	if what, _ := pflag.UnquoteUsage(f); what == "URI" {
		if f.Name == "key" {
			return a.keyURIs
		}
		return a.tokenURIs
	}
	switch f.Name {
	case "context", "with":
		return a.contextNames
	case "cluster":
		return a.clusterNames
	case "enrollment":
		return a.enrollmentNames
	}
	return nil
}

// choicesIn reads "what it is: one, two (default), three" and "one, two or three".
func choicesIn(usage string) []string {
	words := usage[strings.LastIndex(usage, ": ")+1:]
	all := strings.Split(strings.ReplaceAll(words, " or ", ", "), ", ")
	for i, w := range all {
		all[i] = strings.TrimSuffix(strings.TrimSpace(w), " (default)")
		if !oneWord().MatchString(all[i]) {
			return nil
		}
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

// Compiled when they are first used: kubectl starts the program for every command.
var oneWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9-]+$`) })

// plain is what no shell understands as anything but a word. Other names are not
// offered: a script that completes may be less careful than we.
var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\pL\pN_.:@/=;?%+,-]+$`) })

func offer(list completing) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTime)
		defer cancel()
		found := slices.DeleteFunc(list(ctx), func(s string) bool {
			return !plain().MatchString(s) ||
				!strings.HasPrefix(s, typed)
		})
		return found, cobra.ShellCompDirectiveNoFileComp
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
	contexts, _ := kubeconfig.DefaultRules(a.kubeconfig).List(ctx) // those that can be read
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

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
