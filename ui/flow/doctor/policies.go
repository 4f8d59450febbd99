package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

const (
	// askPatience bounds what signs in to look.
	askPatience = 5 * time.Second
	// maxReaders bounds how many contexts of a cluster are tried until one may read its policies.
	maxReaders = 3
	// maxLooks is how many clusters are looked at at a time: each look reads the kubeconfig again.
	maxLooks = 8
)

// policies names the policies with revoked certificates that are broken, in the clusters that a context
// reaches without anybody being asked. Of the others nothing is known.
func policies(ctx context.Context, o *Options) []Check {
	if !o.Online {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	quiet := o.Env.On("").Quiet()
	contexts, _ := quiet.Rules().List(ctx) // [kubeconfigs] tells what cannot be read
	servers := o.unasked()
	readers := map[string][]string{} // contexts by API servers
	for _, k := range contexts {
		if server := servers(k); server != "" && len(readers[server]) < maxReaders {
			readers[server] = append(readers[server], k.Name)
		}
	}
	all := slices.Sorted(maps.Keys(readers))
	found := make([][]Check, len(all))
	room := make(chan struct{}, maxLooks)
	var wg sync.WaitGroup
	for i, server := range all {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			found[i] = append(brokenPolicies(ctx, desk.NewStopping(quiet), readers[server]),
				deskRights(ctx, quiet, readers[server])...)
		})
	}
	wg.Wait()
	return slices.Concat(found...)
}

// unasked returns what tells the API server that a context reaches as somebody whom nobody has to ask, and
// which verifies who answers; "" for any other context. Other programs that sign in may ask.
func (o *Options) unasked() func(kubeconfig.Context) string {
	ours := map[string]string{}
	all, _ := o.enrollments() // [clusters] tells what cannot be read
	for _, e := range all {
		if !e.Cluster.InsecureSkipTLSVerify {
			ours[e.Name] = e.Cluster.Server
		}
	}
	stored := []kubeconfig.UserKind{kubeconfig.UserKeyFile, kubeconfig.UserKeyData, kubeconfig.UserToken,
		kubeconfig.UserTokenFile}
	return func(k kubeconfig.Context) string {
		switch {
		case k.User.Ours() && k.Cluster.Ours():
			return ours[k.User.Enrollment]
		case slices.Contains(stored, k.User.Kind) && !k.Cluster.InsecureSkipTLSVerify &&
			strings.HasPrefix(k.Cluster.Server, "https://"):
			return k.Cluster.Server
		}
		return ""
	}
}

// brokenPolicies looks at one cluster's, by the first of its contexts that may.
func brokenPolicies(ctx context.Context, s desk.Stopping, readers []string) []Check {
	for _, name := range readers {
		list, err := s.List(ctx, name)
		switch {
		case csr.IsForbidden(err), errors.Is(err, hsm.ErrPINRequired):
			continue
		case err != nil: // [clusters] tells of a server that is out of reach
			return nil
		}
		// One without a name stands for those that the caller may not read.
		list.Shards = slices.DeleteFunc(list.Shards, func(s revocation.Shard) bool { return s.Name == "" })
		broken := list.Err()
		if broken == nil {
			return nil
		}
		section := present.BrokenPolicies(strings.Split(broken.Error(), "\n"))
		var words []string
		for _, l := range section.Lines {
			words = append(words, l.Words)
		}
		c := Check{ID: "revocation-policies/" + name, Group: GroupClusters,
			Title: section.Title + " in the cluster of " + name}
		return []Check{c.with(Warning, strings.Join(words, "; "), "A certificate that is revoked may write there.",
			hinting.Of(broken))}
	}
	return nil
}

// deskRights warns a member of the help desk who lacks some of its rights in a cluster.
func deskRights(ctx context.Context, e *env.Env, contexts []string) []Check {
	for _, name := range contexts {
		lacks, err := desk.LacksRights(ctx, e, name)
		if err != nil || len(lacks) == 0 {
			continue // [clusters] tells of a server that is out of reach
		}
		c := Check{ID: "help-desk/" + name, Group: GroupClusters, Title: "Rights of the help desk in the cluster of " + name}
		return []Check{c.with(Warning, "you may not "+strings.Join(lacks, ", "),
			"Tickets or approvals fail there.", "a cluster admin runs `kubehsm rbac print | kubectl apply -f -`")}
	}
	return nil
}
