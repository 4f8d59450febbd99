package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	libcluster "github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
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
	env      *env.Env
	access   cluster.Access
	patience time.Duration // time that a cluster gets to know a new token
}

// NewBootstrapTokens returns those that e leads to.
func NewBootstrapTokens(e *env.Env) BootstrapTokens {
	return BootstrapTokens{env: e, access: cluster.Access{Env: e}, patience: lookAhead}
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
	// FileOnly: it has a service account's token in the place of a bootstrap token, and is Whole.
	FileOnly bool
}

// DefaultLineLifetime is that of the certificates of a roster: they survive a weekend.
const DefaultLineLifetime = 7 * 24 * time.Hour

// weekend is how long a certificate has to last at least that is renewed on Friday afternoon ([expiry.Due]).
const weekend = 3 * 24 * time.Hour

// warnings say what a short lifetime means.
func (o LineOptions) warnings() []string {
	if o.Lifetime >= weekend {
		return nil
	}
	return []string{fmt.Sprintf("a certificate of %s ends during a weekend, when nobody renews it. Its owner then needs "+
		"a new line. Choose %s or longer, and it survives a weekend", span.Of(o.Lifetime), span.Of(weekend))}
}

// JoinLine makes a token that can only file requests and look up whose a hardware token is, and the one command
// with which everybody on the roster joins: the attestation of the key says which token it is, the roster whose.
// Where the cluster does not show its cluster-info, or does not sign it, the line has the cluster's authority in
// it. The error is [ErrNoTokenSignIn] if the cluster does not accept bootstrap tokens.
func (b BootstrapTokens) JoinLine(ctx context.Context, kubeContext string, o LineOptions) (BootstrapToken, error) {
	at, err := b.access.Verified(ctx, kubeContext)
	if err != nil {
		return BootstrapToken{}, err
	}
	if o.FileOnly {
		if _, err := wholeLine(at, ""); err != nil { // before there is a token: nothing can end only this one
			return BootstrapToken{}, err
		}
		v, err := b.fileOnly(ctx, kubeContext, o.TTL)
		if err == nil {
			v.Join, err = wholeLine(at, v.Token)
		}
		v.Join += o.flags()
		v.Warnings = append(v.Warnings, o.warnings()...)
		return v, err
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
	whole, err := wholeLine(at, r.Token.Reveal()) // before there is a token: the cluster may have no authority
	if err != nil {
		return BootstrapToken{}, err
	}
	v, err := b.Create(ctx, kubeContext, r, true)
	if err != nil {
		return BootstrapToken{}, err
	}
	works, err := b.works(ctx, at, r.Token)
	if errors.Is(err, ErrNoTokenSignIn) {
		err = hint.With(err, "make a line without a bootstrap token: `kubehsm roster line --file-only`")
	}
	if err != nil {
		return BootstrapToken{}, errors.Join(err, b.Delete(context.WithoutCancel(ctx), kubeContext, r.Token.ID()))
	}
	if o.Whole || !works {
		v.Join = whole
	}
	v.Join += o.flags()
	v.Warnings = append(v.Warnings, o.warnings()...)
	return v, nil
}

// flags are those of the join line, after what names the cluster.
func (o LineOptions) flags() (line string) {
	for _, g := range o.Groups {
		line += " --group " + shell.Quote(g)
	}
	if o.Name != "" {
		line += " --name " + shell.Quote(o.Name)
	}
	return line + " --expiration " + strings.Replace(o.Lifetime.String(), "h0m0s", "h", 1)
}

// wholeLine is the command that joins with the cluster's authority in it.
func wholeLine(at libcluster.Cluster, token string) (string, error) {
	if _, err := clusterPins(at.Server, at.CAData); err != nil {
		return "", err
	}
	file, err := discovery.DataFile(at)
	return "kubehsm join --discovery-file " + shell.Quote(file) + " --tls-bootstrap-token " + token, err
}

// works tells whether the cluster can be found with a new token, as [BootstrapTokens.Create] words it.
func (b BootstrapTokens) works(ctx context.Context, at libcluster.Cluster, token bootstraptoken.Token) (bool, error) {
	if err := signsIn(ctx, at, token, b.patience); err != nil {
		return false, err
	}
	if discovery.Published(ctx, at) != nil {
		return false, ctx.Err()
	}
	unsigned, err := signed(ctx, at, token, b.patience)
	return unsigned == nil, err
}

// fileOnly makes a token of the service account that can only file requests.
func (b BootstrapTokens) fileOnly(ctx context.Context, kubeContext string, ttl time.Duration) (BootstrapToken, error) {
	if ttl < minFileOnly {
		err := fmt.Errorf("%w: a file-only token for %s", bootstraptoken.ErrInvalid, span.Of(ttl))
		return BootstrapToken{}, hint.Withf(err, "choose %s or longer: a file-only token always ends",
			span.Of(minFileOnly))
	}
	c, err := openObjects(ctx, b.access, kubeContext)
	if err != nil {
		return BootstrapToken{}, err
	}
	body, err := json.Marshal(object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"spec": map[string]any{"expirationSeconds": int64(ttl / time.Second)}})
	if err != nil {
		return BootstrapToken{}, err
	}
	got, err := c.do(ctx, "make a file-only token", c.rest.Post().AbsPath("/api/v1/namespaces", clusterapi.Namespace,
		"serviceaccounts", clusterapi.Joiner, "token").SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body))
	if isNotFound(err) {
		err = hint.With(err, "the service account "+clusterapi.Joiner+" has to exist: apply the manifests of this "+
			"version of the approver (docs/fleet.md)")
	}
	return BootstrapToken{ID: clusterapi.Joiner, Token: got.text("status", "token"),
		Expires: got.time("status", "expirationTimestamp"), Description: "kubehsm: the join line of the roster"}, err
}

// minFileOnly is the shortest life that Kubernetes gives to a service account's token.
const minFileOnly = 10 * time.Minute

// clusterPins are the pins of a server's authorities, which are PEM.
func clusterPins(server string, authorities []byte) ([]discovery.Pin, error) {
	if len(authorities) == 0 {
		return nil, hint.With(fmt.Errorf("the context of %s names no certificate authority", server),
			"it trusts the system's; to join by token, users need the hash of the cluster's own: "+
				"put certificate-authority-data into the context's cluster")
	}
	return discovery.PinsOf(authorities)
}

// List lists the tokens in a cluster; the notes name those that the cluster takes
// for none, and those that it signs nobody in with.
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
		if err := r.Refused(); err != nil {
			notes = append(notes, fmt.Sprintf("the cluster signs nobody in with the token %s: %v", r.Token.ID(), err))
		}
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
