package contexts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// ErrUnproven: what a cluster says of itself did not prove true.
var ErrUnproven = errors.New("what the cluster says of itself could not be proven")

// Refresh is what a cluster says of itself that an enrollment does not
// know yet: servers move, authorities are replaced.
type Refresh struct {
	Name string `json:"name"`
	// Changes is empty if all is as it was. Its text comes from the cluster.
	Changes []discovery.Change `json:"changes"`
	// Unproven says why it should not be relied on, "" if it was tried and works.
	Unproven string `json:"unproven,omitempty"`
	// Kubeconfig is the change of the kubeconfig entry.
	Kubeconfig *Change `json:"-"`

	from Contexts
	next enrollment.Enrollment
}

// Changed tells whether there is anything to apply.
func (c *Refresh) Changed() bool { return len(c.Changes) > 0 }

// Refresh asks the cluster of the enrollment called name, anonymously and
// over the chain that is trusted already, what has changed. Nothing is written.
func (k Contexts) Refresh(ctx context.Context, name string) (*Refresh, error) {
	en, err := k.env.Enrollments().Load(name)
	if err != nil {
		return nil, err
	}
	if en.Cluster.InsecureSkipTLSVerify {
		return nil, hint.With(fmt.Errorf("%w: the enrollment %s does not verify %s at all", ErrUnproven, name, en.Host()),
			"put the cluster's CA into its context, then `kubehsm enroll --restart --name "+name+"`")
	}
	update, err := discovery.Refresh(ctx, en.Cluster, discovery.Limits{Timeout: k.env.RequestTimeout})
	if errors.Is(err, discovery.ErrUntrusted) {
		return nil, hint.Withf(err, "ask the cluster's administrators whether its certificate authority (CA) was replaced; "+
			"if it was, ask them for a discovery file with the new CA, or for its hash: "+
			"`kubehsm kubeconfig refresh %s --discovery-file FILE` or "+
			"`kubehsm kubeconfig refresh %[1]s --discovery-token-ca-cert-hash HASH`", name)
	}
	if err != nil {
		return nil, hint.Withf(err,
			"check that %s is up and reachable from here; if the cluster has moved, "+
				"give its new address: `kubehsm kubeconfig refresh %s --server URL`", en.Host(), name)
	}
	return newRefresh(ctx, k, en, update)
}

// RefreshFrom is Refresh for an enrollment that no longer trusts its cluster, since the authority was replaced, by
// what the user was given: a discovery file, which names the new authority, or the pins of its public key, by which
// the cluster is asked at from's endpoint, or else where it was enrolled. The server must show a certificate of that
// authority.
func (k Contexts) RefreshFrom(ctx context.Context, name string, from discovery.Options) (*Refresh, error) {
	en, err := k.env.Enrollments().Load(name)
	if err != nil {
		return nil, err
	}
	if from.File != "" {
		fresh, err := discovery.Discover(ctx, from)
		if err != nil {
			return nil, err
		}
		return refreshTo(ctx, k, en, fresh)
	}
	at := en.Cluster
	at.Server = cmp.Or(from.Endpoint, at.Server)
	fresh, err := discovery.ByPins(ctx, at, from.Pins, discovery.Limits{Timeout: k.env.RequestTimeout})
	if errors.Is(err, discovery.ErrUnreachable) || errors.Is(err, discovery.ErrDocument) {
		err = hint.Withf(err, "check that the cluster's API server is at %s; if it is elsewhere, add --server URL", at.Server)
	}
	if err != nil {
		return nil, err
	}
	if from.Endpoint != "" { // the user knows better than the cluster
		fresh.Server = from.Endpoint
	}
	return refreshTo(ctx, k, en, fresh)
}

// refreshTo is the refresh of en by what the user has vouched for. The server there is tried.
func refreshTo(ctx context.Context, k Contexts, en enrollment.Enrollment, fresh cluster.Cluster) (*Refresh, error) {
	update, err := discovery.Compare(en.Cluster, fresh)
	if err != nil {
		return nil, err
	}
	if update.Changed() {
		next := en
		next.Cluster = update.New
		if err := next.Validate(); err != nil {
			return nil, err
		}
		m := &ServerMove{Name: en.Name, New: next.Cluster.Server, Host: next.Host(), from: k, next: next}
		update.Unproven = m.Prove(ctx)
	}
	return newRefresh(ctx, k, en, update)
}

// newRefresh is the refresh of en by update.
func newRefresh(ctx context.Context, k Contexts, en enrollment.Enrollment, update discovery.Update) (*Refresh, error) {
	r := &Refresh{Name: en.Name, Changes: append([]discovery.Change{}, update.Changes...), from: k, next: en}
	if update.Unproven != nil {
		r.Unproven = update.Unproven.Error()
	}
	r.next.Cluster = update.New
	var err error
	r.Kubeconfig, err = k.PlanEntry(ctx, r.next, false, false)
	return r, err
}

// Apply has the enrollment and its kubeconfig entry follow. What is unproven is
// [ErrUnproven] unless accept is set: the old address works as long as it does. The key signs the
// record, for which p is asked.
func (c *Refresh) Apply(ctx context.Context, accept bool, p hsm.Prompter) error {
	if !c.Changed() {
		return nil
	}
	if c.Unproven != "" && !accept {
		return hint.With(fmt.Errorf("%w: %s", ErrUnproven, c.Unproven),
			"ask the cluster's administrators; --accept-risk=unproven accepts the change anyway")
	}
	release, err := c.from.env.Lock(ctx, c.Name)
	if err != nil {
		return err
	}
	defer release()
	// The enrollment is what counts: the agent serves no other address. If the rest
	// fails, the next run mends it.
	if err := saveSigned(ctx, c.from.env, c.next, p); err != nil {
		return err
	}
	return c.Kubeconfig.Apply(ctx)
}

// KeySigns announces that the key of the enrollment called name signs its record.
func KeySigns(name string) string {
	return "The key of " + name + " signs the change, which requires its PIN."
}

// saveSigned has the key of en sign its record and stores it, and has what is under way there follow.
func saveSigned(ctx context.Context, e *env.Env, en enrollment.Enrollment, p hsm.Prompter) error {
	en, err := session.Agent{Env: e}.Sign(ctx, en, p)
	if err != nil {
		return err
	}
	if err := e.Enrollments().Save(en); err != nil {
		return err
	}
	return noteCluster(e, en)
}

// noteCluster has the record of an enrollment under way follow en. What is not under way has none.
func noteCluster(e *env.Env, en enrollment.Enrollment) error {
	j, err := enrolling.NewStore(e).Load(en.Name)
	if err == nil {
		j.Cluster = en.Cluster
		err = enrolling.NewStore(e).Save(j)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
