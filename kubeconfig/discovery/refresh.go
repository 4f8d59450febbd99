package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig/internal/problem"
)

// Change is one difference between two descriptions of a cluster. Old is empty
// for what is new, New for what is gone.
type Change struct {
	// Field is "server", "certificate authority", "TLS server name" or "proxy".
	Field string `json:"field"`
	// Old and New are for people, and hold untrusted text.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Update is what [Refresh] found.
type Update struct {
	Old, New cluster.Cluster
	// Changes is empty if all is as it was.
	Changes []Change
	// Unproven is why New should not be relied on yet: the server that it names
	// could not be reached, or verified, or said something else. It is nil if
	// that worked, or if nothing has changed.
	Unproven error
}

// Changed reports whether there is anything to apply.
func (u Update) Changed() bool { return len(u.Changes) > 0 }

// Refresh reads cluster-info of a known cluster over its verified connection,
// anonymously, and says what has changed. Nothing is written anywhere: to apply
// it is the caller's, with the user's yes. What cluster-info leaves open (most
// leave TLS server name and proxy so) stays as it is in info.
//
// The whole bundle of authorities counts, also those that a discovery by token
// left out because they were not pinned: they are shown as new.
//
// [ErrAnonymous] and [ErrNoClusterInfo] mean that this cluster does not say;
// its server is verified nevertheless. [ErrUntrusted] means that the server no
// longer has a certificate of the known authorities.
func Refresh(ctx context.Context, info cluster.Cluster, l Limits) (Update, error) {
	return refresh(ctx, info, nil, l, defaultPace(l))
}

// Follow is [Refresh] for the agent. It asks by over, which carries requests over a connection that is
// verified as info says, and anonymously if whoever has signed in there is not shown cluster-info.
func Follow(ctx context.Context, info cluster.Cluster, over http.RoundTripper, l Limits) (Update, error) {
	return follow(ctx, info, over, l, defaultPace(l))
}

func follow(ctx context.Context, info cluster.Cluster, over http.RoundTripper, l Limits, p pace) (Update, error) {
	u, err := refresh(ctx, info, over, l, p)
	if errors.Is(err, ErrAnonymous) {
		u, err = refresh(ctx, info, nil, l, p)
	}
	return u, err
}

func refresh(ctx context.Context, info cluster.Cluster, over http.RoundTripper, l Limits, p pace) (Update, error) {
	ctx, cancel := limited(ctx, l.Timeout, DefaultTimeout)
	defer cancel()
	fail := func(err error) (Update, error) {
		return Update{}, fmt.Errorf("refresh what is known of %s: %w", info.Server, err)
	}
	if l.Timeout < 0 {
		return fail(problem.BadInput("timeout", "", "it is negative"))
	}
	t, err := of(info)
	if err != nil {
		return fail(err)
	}
	t.over = over
	var document string
	err = p.until(ctx, func(ctx context.Context) error {
		data, err := t.clusterInfo(ctx)
		document = data["kubeconfig"]
		return err
	})
	if err != nil {
		return fail(err)
	}
	fresh, err := parseDocument([]byte(document), "")
	if err != nil {
		return fail(fmt.Errorf("cluster-info: %w", err))
	}
	u, err := Compare(info, fresh)
	if err != nil {
		return fail(err)
	}
	if u.Changed() {
		u.Unproven = prove(ctx, u.New, document, p)
	}
	return u, nil
}

// ByPins reads cluster-info of a known cluster whose authority is no longer the known one. pins, of
// which there must be one at least, vouch for the new one in place of a signature: authorities without
// a pin are left out, and the server must have a certificate of those that are kept.
func ByPins(ctx context.Context, info cluster.Cluster, pins []Pin, l Limits) (cluster.Cluster, error) {
	return byPins(ctx, info, pins, l, defaultPace(l))
}

func byPins(ctx context.Context, info cluster.Cluster, pins []Pin, l Limits, p pace) (cluster.Cluster, error) {
	ctx, cancel := limited(ctx, l.Timeout, DefaultTimeout)
	defer cancel()
	if len(pins) == 0 {
		return cluster.Cluster{}, problem.BadInput("discovery-token-ca-cert-hash", "", "there is none")
	}
	t, err := of(info)
	if err != nil {
		return cluster.Cluster{}, err
	}
	t.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: info.TLSServerName,
		InsecureSkipVerify: true} // the pins decide, and then the second reading
	var document []byte
	err = p.until(ctx, func(ctx context.Context) error {
		data, err := t.clusterInfo(ctx)
		document = []byte(data["kubeconfig"])
		return err
	})
	if err != nil {
		return cluster.Cluster{}, err
	}
	return settled(ctx, t, document, pins, p)
}

// Compare is what [Refresh] finds where the user has got fresh in another way, such as by
// [Discover]. Whether the cluster answers there is left to the caller.
func Compare(info, fresh cluster.Cluster) (u Update, err error) {
	u = Update{Old: info, New: merge(info, fresh)}
	u.Changes, err = changes(info, u.New)
	return u, err
}

// merge returns old, changed by what fresh says.
func merge(old, fresh cluster.Cluster) cluster.Cluster {
	old.Server = fresh.Server
	if len(fresh.CAData) > 0 {
		old.CAData = fresh.CAData
	}
	if fresh.TLSServerName != "" {
		old.TLSServerName = fresh.TLSServerName
	}
	if fresh.ProxyURL != "" {
		old.ProxyURL, old.Direct = fresh.ProxyURL, false
	}
	return old
}

// prove tries what a cluster says of itself, once.
func prove(ctx context.Context, info cluster.Cluster, document string, p pace) error {
	t, err := of(info)
	if err != nil {
		return err
	}
	return p.once(ctx, func(ctx context.Context) error {
		data, err := t.clusterInfo(ctx)
		if err == nil && data["kubeconfig"] != document {
			err = ErrDiffers
		}
		return err
	})
}

func changes(old, fresh cluster.Cluster) ([]Change, error) {
	var out []Change
	for _, c := range []Change{
		{"server", old.Server, fresh.Server},
		{"TLS server name", old.TLSServerName, fresh.TLSServerName},
		{"proxy", old.ProxyURL, fresh.ProxyURL},
	} {
		if c.Old != c.New {
			out = append(out, c)
		}
	}
	before, err := authorities(old)
	if err != nil {
		return nil, err
	}
	after, err := authorities(fresh)
	if err != nil {
		return nil, err
	}
	if len(before) == 0 && len(after) > 0 {
		out = append(out, Change{"certificate authority", "those of the system", ""})
	}
	return append(out, authorityChanges(before, after)...), nil
}

// authorityChanges pairs a certificate with its successor for the same key.
func authorityChanges(before, after []*x509.Certificate) []Change {
	const field = "certificate authority"
	gone, added := without(before, after), without(after, before)
	var out []Change
	for _, c := range gone {
		change := Change{Field: field, Old: describe(c)}
		for i, n := range added {
			if PinOf(n) == PinOf(c) {
				change.New = describe(n)
				added = append(added[:i:i], added[i+1:]...)
				break
			}
		}
		out = append(out, change)
	}
	for _, n := range added {
		out = append(out, Change{Field: field, New: describe(n)})
	}
	return out
}

// without is a less b.
func without(a, b []*x509.Certificate) []*x509.Certificate {
	var out []*x509.Certificate
	for _, c := range a {
		found := false
		for _, o := range b {
			found = found || c.Equal(o)
		}
		if !found {
			out = append(out, c)
		}
	}
	return out
}

func describe(c *x509.Certificate) string {
	return fmt.Sprintf("%s, until %s, %s", c.Subject, c.NotAfter.UTC().Format(time.DateOnly), PinOf(c))
}
