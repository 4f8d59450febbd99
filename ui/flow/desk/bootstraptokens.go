package desk

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// BootstrapToken is a bootstrap token as screens and documents show it, with
// the names that kubeadm's have. Its text comes from a cluster: clean it before
// printing.
type BootstrapToken struct {
	// Token is redacted unless it was asked to be revealed.
	Token       string     `json:"token"`
	ID          string     `json:"id"`
	Description string     `json:"description,omitempty"`
	Expires     *time.Time `json:"expires,omitempty"` // nil is never
	Usages      []string   `json:"usages,omitempty"`
	Groups      []string   `json:"groups,omitempty"`
	// Warnings are what its maker should know.
	Warnings []string `json:"warnings,omitempty"`
	// Join is the command that joins with it, where that was asked for; it
	// holds the token.
	Join string `json:"joinCommand,omitempty"`
}

func viewToken(r bootstraptoken.Record, reveal bool) BootstrapToken {
	v := BootstrapToken{Token: r.Token.String(), ID: r.Token.ID(), Description: r.Description, Usages: r.Usages,
		Groups: r.Groups}
	if reveal {
		v.Token = r.Token.Reveal()
	}
	if !r.Expires.IsZero() {
		v.Expires = &r.Expires
	} else {
		v.Warnings = append(v.Warnings, "it never expires: whoever finds it later can use it; delete it after use")
	}
	if slices.Contains(r.Groups, bootstraptoken.NodeGroup) {
		v.Warnings = append(v.Warnings,
			"its group is that of nodes, whose requests kubeadm's clusters approve by themselves: not for a person")
	}
	return v
}

// BootstrapTokens are those of the clusters of the kubeconfig.
type BootstrapTokens struct {
	env    *env.Env
	access cluster.Access
}

// NewBootstrapTokens returns those that e leads to.
func NewBootstrapTokens(e *env.Env) BootstrapTokens {
	return BootstrapTokens{env: e, access: cluster.Access{Env: e}}
}

// Create tells the cluster of r. With join it adds the command
// that joins with it.
func (b BootstrapTokens) Create(ctx context.Context, kubeContext string, r bootstraptoken.Record,
	join bool) (BootstrapToken, error) {
	v := viewToken(r, true)
	if join {
		if !r.Signs() {
			return BootstrapToken{}, hint.With(fmt.Errorf("%w: nobody can find the cluster with it", bootstraptoken.ErrInvalid),
				"a join command needs the usage \"signing\"")
		}
		at, err := b.access.Verified(ctx, kubeContext)
		if err != nil {
			return BootstrapToken{}, err
		}
		if v.Join, err = joinCommand(at.Server, at.CAData, v.Token); err != nil {
			return BootstrapToken{}, err
		}
	}
	client, err := b.access.BootstrapTokens(ctx, kubeContext)
	if err != nil {
		return BootstrapToken{}, err
	}
	return v, client.Create(ctx, r)
}

// joinCommand is what a person types to join, as kubeadm words it.
func joinCommand(server string, authorities []byte, token string) (string, error) {
	pins, err := clusterPins(server, authorities)
	if err != nil {
		return "", err
	}
	address := server
	if u, err := url.Parse(server); err == nil && u.Port() != "" && strings.Trim(u.Path, "/") == "" {
		address = u.Host
	}
	line := []string{"kubehsm join", shell.Quote(address), "--token", token}
	for _, p := range pins {
		line = append(line, "--discovery-token-ca-cert-hash", p.String())
	}
	return strings.Join(line, " "), nil
}

// LineOptions say what the join line of a roster is like.
type LineOptions struct {
	// TTL is how long it is good for, Lifetime how long the certificates are that are requested with it.
	TTL, Lifetime time.Duration
	// Groups are those that its users ask for, Name is the name proposed for the enrollment.
	Groups []string
	Name   string
	// Whole: it has the cluster's authority in it, also where the cluster publishes cluster-info.
	Whole bool
}

// DefaultLineLifetime is that of the certificates of a roster: they survive a weekend.
const DefaultLineLifetime = 7 * 24 * time.Hour

// JoinLine makes a bootstrap token that can only file requests, and the one command with which everybody on
// the roster joins: the attestation of the key says which token it is, the roster whose. Where the cluster does
// not show its cluster-info the line has the cluster's authority in it.
func (b BootstrapTokens) JoinLine(ctx context.Context, kubeContext string, o LineOptions) (BootstrapToken, error) {
	at, err := b.access.Verified(ctx, kubeContext)
	if err != nil {
		return BootstrapToken{}, err
	}
	secret, err := bootstraptoken.Generate()
	if err != nil {
		return BootstrapToken{}, err
	}
	defer secret.Wipe()
	r := bootstraptoken.Record{Token: secret, Description: "kubehsm: the join line of the roster",
		Usages: bootstraptoken.KnownUsages(), Groups: []string{ticket.Group}}
	if r.Expires, err = bootstraptoken.ExpiresIn(time.Now(), o.TTL); err != nil {
		return BootstrapToken{}, err
	}
	trying, cancel := context.WithTimeout(ctx, lookAhead)
	defer cancel()
	whole := o.Whole || discovery.Published(trying, at) != nil
	line := ""
	if whole {
		if _, err := clusterPins(at.Server, at.CAData); err != nil {
			return BootstrapToken{}, err
		}
		file, err := discovery.DataFile(at)
		if err != nil {
			return BootstrapToken{}, err
		}
		line = "kubehsm join --discovery-file " + shell.Quote(file) + " --tls-bootstrap-token " + r.Token.Reveal()
	}
	v, err := b.Create(ctx, kubeContext, r, !whole)
	if err != nil {
		return BootstrapToken{}, err
	}
	if !whole {
		line = v.Join
	}
	for _, g := range o.Groups {
		line += " --group " + shell.Quote(g)
	}
	if o.Name != "" {
		line += " --name " + shell.Quote(o.Name)
	}
	v.Join = line + " --expiration " + o.Lifetime.String()
	return v, nil
}

// clusterPins are the pins of a server's authorities, which are PEM.
func clusterPins(server string, authorities []byte) ([]discovery.Pin, error) {
	if len(authorities) == 0 {
		return nil, hint.With(fmt.Errorf("the context of %s names no certificate authority", server),
			"it trusts the system's; to join by token, users need the hash of the cluster's own: "+
				"put certificate-authority-data into the context's cluster")
	}
	return discovery.PinsOf(authorities)
}

// List lists the tokens in a cluster; those that the cluster takes
// for none are named in the notes.
func (b BootstrapTokens) List(ctx context.Context, kubeContext string, reveal bool) (all []BootstrapToken,
	notes []string, err error) {
	client, err := b.access.BootstrapTokens(ctx, kubeContext)
	if err != nil {
		return nil, nil, err
	}
	records, ignored, err := client.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	all = []BootstrapToken{}
	for _, r := range records {
		all = append(all, viewToken(r, reveal))
		r.Token.Wipe()
	}
	for _, i := range ignored {
		notes = append(notes, i.Err.Error())
	}
	return all, notes, nil
}

// Delete removes the token with this ID.
func (b BootstrapTokens) Delete(ctx context.Context, kubeContext, id string) error {
	client, err := b.access.BootstrapTokens(ctx, kubeContext)
	if err != nil {
		return err
	}
	return client.Delete(ctx, id)
}
