package enroll

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// ErrNoJoin: nothing says which cluster is to be joined.
var ErrNoJoin = errors.New("no join was begun")

// Joins are the enrollments that find their cluster without a kubeconfig.
type Joins struct{ env *env.Env }

// NewJoins returns those of e.
func NewJoins(e *env.Env) Joins { return Joins{env: e} }

// Begun tells whether there is a join called name to go on with; the error
// is [ErrNoJoin] if not. The kubeconfig's clusters are not for joining.
func (n Joins) Begun(name string) error {
	j, err := enrolling.NewStore(n.env).Load(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hint.With(fmt.Errorf("%q: %w", name, ErrNoJoin),
			"say which cluster: --ticket -, or an address and --token -, or --discovery-file FILE")
	case err == nil && j.Options.Join == nil:
		return hint.Withf(fmt.Errorf("%q: %w: it was begun from a context", name, ErrNoJoin),
			"go on with `kubehsm enroll --name %s`", name)
	}
	return err
}

// discover finds the cluster of a join, once.
func (r *attempt) discover(ctx context.Context) (outcome, error) {
	if r.record.Cluster.Server != "" && r.record.Did(enrolling.StepDiscover) {
		return outcome{message: r.record.Cluster.Server, reused: true}, nil
	}
	if err := NewEnroller(r.env).discoverInto(ctx, r.record,
		func(reason error) { r.progress(enrolling.StepDiscover, "waiting: %v", reason) }); err != nil {
		return outcome{}, err
	}
	return outcome{message: r.record.Cluster.Server}, nil
}

// discoverInto fills in the cluster that j is for.
func (n Enroller) discoverInto(ctx context.Context, j *enrolling.Progress, waiting func(error)) error {
	o := j.Options.Join
	info := o.Found
	if info == nil {
		if o.File == "" && o.DiscoveryToken.IsZero() {
			return j.TokenNeeded()
		}
		found, err := discovery.Discover(ctx, o.Discovery(waiting))
		if err != nil {
			return err
		}
		info = &found
	}
	o.Found = info
	if of := j.Options.SpareOf; of != "" {
		if err := spares(n).checkCluster(of, *info); err != nil {
			return err
		}
		return n.readCluster(ctx, j)
	}
	j.Cluster = *info
	return nil
}

// client speaks to the cluster as whoever files the request: the user of the
// source context, or the bootstrap token of a join.
func (r *attempt) client(ctx context.Context) (*csr.Client, error) {
	if r.filing != nil {
		return r.filing, nil
	}
	return NewEnroller(r.env).filer(ctx, r.record)
}

func (n Enroller) filer(ctx context.Context, j *enrolling.Progress) (*csr.Client, error) {
	if renewal := j.Options.Renewal; renewal != nil {
		if renewal.With == "" {
			return (cluster.Access{Env: n.env}).ThroughBridge(ctx, j.Options.Name, n.env.Prompter)
		}
		return (cluster.Access{Env: n.env}).Client(ctx, renewal.With)
	}
	if j.Options.Join == nil {
		client, err := (cluster.Access{Env: n.env}).Client(ctx, j.Options.Context)
		if of := j.Options.SpareOf; of != "" && (j.Options.Context == "" || errors.Is(err, kubeconfig.ErrNoContext)) {
			return (cluster.Access{Env: n.env}).ThroughBridge(ctx, of, n.env.Prompter) // another key of the enrollment files it
		}
		if errors.Is(err, kubeconfig.ErrNoContext) {
			if _, loadErr := n.env.Enrollments().Load(j.Options.Name); loadErr == nil {
				err = hint.Withf(err,
					"%s was enrolled from that context; file the request with another one: `kubehsm certificate renew %s --with "+
						"CONTEXT`",
					j.Options.Name, j.Options.Name)
			}
		}
		return client, err
	}
	if j.Options.Join.Bearer() == "" {
		return nil, j.TokenNeeded()
	}
	if j.Cluster.Server == "" { // client-go would send the token to this machine, unencrypted
		return nil, hint.Withf(fmt.Errorf("the record of %q names no API server", j.Options.Name),
			"find it with `%s`", j.Options.Resume())
	}
	return csr.NewClient(bearer(n.env, j))
}

// bearer speaks to the cluster of a join as whoever files the request.
func bearer(e *env.Env, j *enrolling.Progress) *rest.Config {
	config := cluster.Anonymous(j.Cluster)
	config.Timeout, config.BearerToken = e.RequestTimeout, j.Options.Join.Bearer()
	return config
}

// owner is whom the roster of the cluster that is joined gives the token to, nil if there is none that the
// bootstrap token may read.
func (n Joins) owner(ctx context.Context, o *enrolling.Options) (*csr.Subject, error) {
	if o.Join.Bearer() == "" {
		return nil, nil
	}
	j := &enrolling.Progress{Options: *o}
	if err := NewEnroller(n.env).discoverInto(ctx, j, func(error) {}); err != nil {
		return nil, err
	}
	var serial string
	err := (token.Tokens{Env: n.env}).With(ctx, o.Token, func(token hsm.Token) error {
		info, err := token.Info(ctx)
		serial = info.Serial
		return err
	})
	if err != nil || serial == "" {
		return nil, err
	}
	return request.OwnerOf(ctx, bearer(n.env, j), serial)
}

// TakeCertificate puts a certificate that the user was sent into the record of
// the enrollment called name, which waits for it. It must be for its key.
func (n Joins) TakeCertificate(ctx context.Context, name string, pem []byte) error {
	release, err := n.env.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	j, err := enrolling.NewStore(n.env).Load(name)
	if err != nil {
		return hint.With(err, "a certificate belongs to an enrollment that was begun: name it with --name")
	}
	cert, err := csr.ParseCertificate(pem)
	if err != nil {
		return err
	}
	if j.Request.KeyHash == "" {
		return hint.Withf(fmt.Errorf("the enrollment %q has no key yet", name), "run `kubehsm join --name %s` first", name)
	}
	hash, err := hsm.Fingerprint(cert.Leaf.PublicKey)
	if err != nil {
		return err
	}
	if hash != j.Request.KeyHash {
		return hint.With(fmt.Errorf("the certificate is for another key: %w", hsm.ErrKeyMismatch),
			"it belongs to another request, or another enrollment: see --name")
	}
	if got := cert.Subject(); !got.Equal(csr.Subject{User: j.Options.User, Groups: j.Options.Groups}) {
		return hint.With(
			fmt.Errorf("the certificate is for %q in %q, not %q in %q", got.User, got.Groups, j.Options.User, j.Options.Groups),
			"ask who issued it")
	}
	j.Certificate, j.Rejected = cert.PEM, false
	return enrolling.NewStore(n.env).Save(j)
}

// completeSerial takes the token that the ticket is for.
func (n Enroller) completeSerial(ctx context.Context, o *enrolling.Options) error {
	l, err := n.env.Drivers.List(ctx)
	if err != nil {
		return err
	}
	for _, t := range l.Tokens {
		if t.Initialized && t.Serial == o.Join.Serial {
			o.Token = t.URI()
			return nil
		}
	}
	return hint.With(fmt.Errorf("the ticket is for the token with the serial number %q: %w", o.Join.Serial,
		hsm.ErrNoToken),
		hsm.Somewhere.Missing())
}
