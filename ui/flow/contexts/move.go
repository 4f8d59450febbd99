package contexts

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// ServerMove is another address that an enrolled cluster is said to have: by
// somebody's kubeconfig, say, whose word is worth nothing.
type ServerMove struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
	// Host is New's, with its port, as it is to be named for a yes.
	Host string `json:"host"`

	from   Contexts
	next   enrollment.Enrollment
	proven bool
}

const (
	// moveTimeout bounds the look at the new address.
	moveTimeout = 10 * time.Second
	// maxAddress bounds it in bytes; a host's name has 253.
	maxAddress = 320
)

// MoveServer plans to follow the enrolled cluster called name to another address.
// Nothing is sent and nothing is written. Errors: [enrollment.ErrUnknown],
// [enrollment.ErrInvalid], [ErrUnproven] for what nothing could prove.
func (k Contexts) MoveServer(ctx context.Context, name, server string) (*ServerMove, error) {
	en, err := k.env.Enrollments().Load(name)
	if err != nil {
		return nil, err
	}
	m := &ServerMove{Name: name, Old: en.Cluster.Server, New: server, from: k, next: en}
	m.next.Cluster.Server = server
	if err := m.next.Validate(); err != nil {
		return nil, err
	}
	m.Host = m.next.Host()
	// It may look like another one, or be a text that speaks to the user.
	if len(server) > maxAddress || strings.ContainsFunc(server, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return nil, fmt.Errorf("%w: %.80q is not a plain address", ErrUnproven, server)
	}
	if en.Cluster.InsecureSkipTLSVerify {
		return nil, hint.With(fmt.Errorf("%w: the enrollment %s does not verify its server", ErrUnproven, name),
			"enroll it again with `kubehsm enroll --restart --name "+name+"`")
	}
	return m, nil
}

// Proof is what [ServerMove.Prove] wants of who answers there: a certificate, and
// whose.
func (m *ServerMove) Proof() string {
	switch c := m.next.Cluster; {
	case len(c.CAData) > 0:
		return "a certificate of the authority that you enrolled"
	case c.TLSServerName != "":
		return "a certificate for " + c.TLSServerName + " that this computer trusts"
	}
	return "a certificate for this host that this computer trusts, which anybody can get for a host of their own"
}

// Prove asks who answers at the new address for his version, as nobody in
// particular. He must show a certificate as [ServerMove.Proof] says: it is an error
// that wraps [ErrUnproven] if he does not.
func (m *ServerMove) Prove(ctx context.Context) error {
	transport := cluster.Transport(m.next.Cluster, moveTimeout)
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(m.New, "/")+"/version", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return hint.With(fmt.Errorf("%w: %s: %w", ErrUnproven, m.Host, err),
			"ask the cluster's administrators; if its authority was changed too, "+
				"enroll again with `kubehsm enroll --restart --name "+m.Name+"`")
	}
	m.proven = true
	return resp.Body.Close()
}

// apply has the enrollment follow, once that is proven, by a signature of its key.
func (m *ServerMove) apply(ctx context.Context, p hsm.Prompter) error {
	if !m.proven {
		if err := m.Prove(ctx); err != nil {
			return err
		}
	}
	release, err := m.from.env.Lock(ctx, m.Name)
	if err != nil {
		return err
	}
	defer release()
	now, err := m.from.env.Enrollments().Load(m.Name)
	if err != nil {
		return err
	}
	if now.Cluster.Server == m.New {
		return nil // another one was faster
	}
	now.Cluster.Server = m.New
	return saveSigned(ctx, m.from.env, now, p)
}

// ApplyAll has the enrollment follow, once that is proven, and its kubeconfig entry say where it leads. The
// key signs the record, for which p is asked.
func (m *ServerMove) ApplyAll(ctx context.Context, p hsm.Prompter) error {
	if err := m.apply(ctx, p); err != nil {
		return err
	}
	change, err := m.from.Set(ctx, m.Name, false, false)
	if err != nil {
		return err
	}
	return change.Apply(ctx)
}
