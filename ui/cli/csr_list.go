package cli

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) csrList() *cobra.Command {
	var o *format
	var f request.Filter
	var mine, follow bool
	c := a.inEnv(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the certificate requests in a cluster",
		Long: `Lists the requests in a cluster, page by page. With --watch, continues with changes;
-o json then writes one event per line. With --mine, lists the requests filed from
this computer and their states, or unknown where the cluster does not say.`,
		Example: `kubehsm csr list --pending
kubehsm csr list --pending --watch
kubehsm csr list --mine
kubehsm csr list --context prod --signer-name kubernetes.io/kube-apiserver-client -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		switch {
		case mine:
			views, err := request.NewOwn(env).List(c.Context(), a.context)
			if err != nil && len(views) == 0 {
				return err
			}
			return errors.Join(a.emitRequests(o, func(yield func(request.View, error) bool) {
				for _, v := range views {
					if !yield(v, nil) {
						return
					}
				}
			}), err)
		case follow:
			return a.watchRequests(c.Context(), env, f, o)
		}
		all, err := request.NewRequests(env).List(c.Context(), a.context, f)
		if err != nil {
			return err
		}
		return a.emitRequests(o, all)
	})
	c.Flags().StringVar(&f.Signer, "signer-name", "", "show only requests for this `signer`")
	c.Flags().StringVarP(&f.Label, "selector", "l", "", "show only requests whose labels match this `selector`, as "+
		"in kubectl")
	c.Flags().BoolVar(&f.Pending, "pending", false, "show only undecided requests")
	c.Flags().BoolVar(&mine, "mine", false, "show only requests filed from this computer, deleted ones too")
	c.Flags().BoolVarP(&follow, "watch", "w", false, "show changes until interrupted")
	c.MarkFlagsMutuallyExclusive("mine", "watch")
	c.MarkFlagsMutuallyExclusive("mine", "pending")
	c.MarkFlagsMutuallyExclusive("mine", "signer-name")
	o = output(c, wide)
	return c
}

// requestPage is the number of requests laid out together: columns are as wide as the widest cell
// so far.
const requestPage = 500

var (
	requestHeading = []string{"NAME", "AGE", "STATE", "ASKED BY", "FOR USER", "GROUPS", "SIGNER"}
	requestMinor   = []string{"SIGNER", "ASKED BY", "GROUPS"}
)

func requestRow(v request.View) []string {
	r := present.RequestRowOf(v, time.Now())
	return []string{r.Name, r.Age, r.State, r.Requester, r.User, r.Groups, r.Signer}
}

// emitRequests never has all requests in memory.
func (a *app) emitRequests(o *format, all iter.Seq2[request.View, error]) error {
	if o.value != "" && o.value != wide {
		return a.emitList(o, "requests", func(yield func(any, error) bool) {
			for v, err := range all {
				if !yield(v, err) {
					return
				}
			}
		})
	}
	t := columns{w: a.wordsAs(o), page: requestPage, heading: requestHeading, minor: requestMinor}
	if err := t.add(slices.Clone(requestHeading)); err != nil {
		return err
	}
	none := true
	for v, err := range all {
		if err != nil {
			return err
		}
		none = false
		if err := t.add(requestRow(v)); err != nil {
			return err
		}
	}
	if none {
		w := a.out()
		w.line("%s", present.NoRequests)
		return w.flush()
	}
	if err := t.flush(); err != nil {
		return err
	}
	t.w.leftOut(requestHeading, t.shown)
	return t.w.flush()
}

func (a *app) watchRequests(ctx context.Context, env *env.Env, f request.Filter, o *format) error {
	if o.value == "yaml" {
		return ui.Usagef("--watch writes words or -o json")
	}
	events, err := request.NewRequests(env).Watch(ctx, a.context, f)
	if err != nil {
		return err
	}
	heading := append([]string{"EVENT"}, requestHeading...)
	t := columns{w: a.wordsAs(o), page: 1, heading: heading, minor: requestMinor}
	headed := o.value == "json"
	if !headed && t.w.columns() == 0 {
		headed = true
		if err := t.add(slices.Clone(heading)); err != nil {
			return err
		}
	}
	for e, err := range events {
		switch {
		case err != nil:
			return err
		case o.value == "json":
			err = a.emitLine(e)
		default:
			if !headed { // it comes with the first row, which tells what fits
				t.page, headed = 2, true
				err = t.add(slices.Clone(heading))
			}
			err = errors.Join(err, t.add(append([]string{e.Type}, requestRow(e.Request)...)))
			t.page = 1
		}
		if err != nil {
			return err
		}
	}
	return nil
}
