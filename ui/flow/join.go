package flow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// JoinOptions say how a cluster is found that no kubeconfig names, and who
// files the request there. What is secret in them is not recorded: a run that
// still needs it must be given it again.
type JoinOptions struct {
	// Endpoint, Pins and UnsafeSkipCAVerification are for discovery by token;
	// see [discovery.Options].
	Endpoint                 string          `json:"endpoint,omitempty"`
	Pins                     []discovery.Pin `json:"pins,omitempty"`
	UnsafeSkipCAVerification bool            `json:"unsafeSkipCAVerification,omitempty"`
	// File is a discovery file, its URL, or [discovery.Stdin] for Document.
	File     string `json:"file,omitempty"`
	Document []byte `json:"-"`
	// DiscoveryToken verifies cluster-info, Token files the request.
	DiscoveryToken bootstraptoken.Token `json:"-"`
	Token          bootstraptoken.Token `json:"-"`
	// Timeout bounds the discovery; 0 is [discovery.DefaultTimeout].
	Timeout time.Duration `json:"-"`

	// Ticket names the ticket's token where there is one; Policy and Serial are
	// its conditions, Seal its key.
	Ticket string        `json:"ticket,omitempty"`
	Policy ticket.Policy `json:"policy,omitzero"`
	Serial string        `json:"serial,omitempty"`
	Seal   []byte        `json:"seal,omitempty"`

	// found is what a [Enroller.Review] has found, for the enrolment that follows.
	found *discovery.ClusterInfo
}

// ErrTicket: what is asked for is not what the ticket is for.
var ErrTicket = errors.New("not what the ticket is for")

// UseTicket takes from t the cluster and what to ask for. What o says already
// must agree ([ErrTicket]); a ticket whose time is up is [ticket.ErrExpired].
func (o *EnrollOptions) UseTicket(t ticket.Ticket) error {
	if err := t.Expired(time.Now()); err != nil {
		return err
	}
	differs := func(what, asked, says string) error {
		return hsm.WithHint(fmt.Errorf("%s %q: %w: that says %q", what, asked, ErrTicket, says), "leave it out, or ask the help desk for another ticket")
	}
	groups := strings.Join(t.Groups, ", ")
	switch {
	case o.User != "" && o.User != t.User:
		return differs("user", o.User, t.User)
	case o.Groups != nil && !slices.Equal(o.Groups, t.Groups):
		return differs("groups", strings.Join(o.Groups, ", "), groups)
	case o.SignerName != "" && o.SignerName != orClientSigner(t.Signer):
		return differs("signer", o.SignerName, orClientSigner(t.Signer))
	case o.Expiration != 0 && t.Lifetime != 0 && o.Expiration > t.Lifetime:
		return differs("lifetime", o.Expiration.String(), t.Lifetime.String())
	case o.NoAttestation && t.Policy != 0:
		return hsm.WithHint(fmt.Errorf("a request without attestation: %w", ErrTicket), "the ticket asks for "+t.Policy.String())
	}
	if err := o.usePolicy(t.Policy); err != nil {
		return err
	}
	o.User, o.Groups = t.User, t.Groups
	fill(&o.SignerName, orClientSigner(t.Signer))
	fill(&o.Expiration, t.Lifetime)
	fill(&o.Name, slug(t.Name))
	o.Join = &JoinOptions{
		Endpoint: t.Server, Pins: t.Pins, DiscoveryToken: t.Token, Token: t.Token,
		Ticket: t.Token.ID(), Policy: t.Policy, Serial: t.Serial, Seal: t.Seal,
	}
	return nil
}

func orClientSigner(name string) string {
	if name == "" {
		return csr.ClientSigner
	}
	return name
}

// usePolicy has a new key made as p asks; a stricter one may be asked for.
func (o *EnrollOptions) usePolicy(p ticket.Policy) error {
	touch, pin := hsm.TouchDefault, hsm.PINDefault
	switch {
	case p.Has(ticket.TouchAlways):
		touch = hsm.TouchAlways
	case p.Has(ticket.TouchCached):
		touch = hsm.TouchCached
	}
	switch {
	case p.Has(ticket.PINAlways):
		pin = hsm.PINAlways
	case p.Has(ticket.PINOnce):
		pin = hsm.PINOnce
	}
	fill(&o.Generate.Touch, touch)
	fill(&o.Generate.PIN, pin)
	if o.Generate.Touch < touch || o.Generate.PIN < pin { // in rising order
		return hsm.WithHint(fmt.Errorf("PIN policy %s, touch policy %s: %w", o.Generate.PIN, o.Generate.Touch, ErrTicket), "the ticket asks for "+p.String())
	}
	return nil
}

// ErrNoJoin: nothing says which cluster is to be joined.
var ErrNoJoin = errors.New("no join was begun")

// Joins are the enrolments that find their cluster without a kubeconfig.
type Joins struct{ env *Env }

// NewJoins returns those of e.
func NewJoins(e *Env) Joins { return Joins{env: e} }

// Begun tells whether there is a join called name to go on with; the error
// is [ErrNoJoin] if not. The kubeconfig's clusters are not for joining.
func (n Joins) Begun(name string) error {
	j, err := NewStore(&n.env.Env).Load(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hsm.WithHint(fmt.Errorf("%q: %w", name, ErrNoJoin), "say which cluster: --ticket -, or an address and --token -, or --discovery-file FILE")
	case err == nil && j.Options.Join == nil:
		return hsm.Hintf(fmt.Errorf("%q: %w: it was begun from a context", name, ErrNoJoin), "go on with `kubehsm enroll --name %s`", name)
	}
	return err
}

// ErrTokenNeeded: the bootstrap token, which is not recorded, must be given
// once more to go on.
var ErrTokenNeeded = errors.New("the bootstrap token or ticket is needed to go on")

func (j *Journal) tokenNeeded() error {
	return hsm.Hintf(ErrTokenNeeded,
		"give it again, or another if it has ended: `kubehsm join --name %s --ticket -` (or --token -); it is not kept anywhere. "+
			"If you were sent the certificate: --certificate FILE", j.Options.Name)
}

// discover finds the cluster of a join, once.
func (r *enrolment) discover(ctx context.Context) (outcome, error) {
	if r.j.Cluster.Server != "" {
		return outcome{message: r.j.Cluster.Server, reused: true}, nil
	}
	if err := NewEnroller(r.env).discoverInto(ctx, r.j, func(reason error) { r.progress(StepDiscover, "waiting: %v", reason) }); err != nil {
		return outcome{}, err
	}
	return outcome{message: r.j.Cluster.Server}, nil
}

// discoverInto fills in the cluster that j is for.
func (n Enroller) discoverInto(ctx context.Context, j *Journal, waiting func(error)) error {
	o := j.Options.Join
	info := o.found
	if info == nil {
		if o.File == "" && o.DiscoveryToken.IsZero() {
			return j.tokenNeeded()
		}
		found, err := discovery.Discover(ctx, o.discovery(waiting))
		if err != nil {
			return err
		}
		info = &found
	}
	o.found = info
	j.Cluster = enrollment.Cluster{Server: info.Server, CAData: info.CAData, TLSServerName: info.TLSServerName, ProxyURL: info.ProxyURL}
	return nil
}

func (o *JoinOptions) discovery(waiting func(error)) discovery.Options {
	d := discovery.Options{Limits: discovery.Limits{Timeout: o.Timeout, Waiting: waiting}, File: o.File}
	switch o.File {
	case "":
		d.Endpoint, d.Token, d.Pins, d.UnsafeSkipCAVerification = o.Endpoint, o.DiscoveryToken, o.Pins, o.UnsafeSkipCAVerification
	case discovery.Stdin:
		d.Stdin = bytes.NewReader(o.Document)
	}
	return d
}

// joinName proposes the name of an enrolment.
func (o *JoinOptions) joinName() string {
	if o.File != "" {
		base := filepath.Base(o.File)
		return nameFor(strings.TrimSuffix(base, filepath.Ext(base)))
	}
	host := o.Endpoint
	if u, err := url.Parse(o.Endpoint); err == nil && u.Host != "" {
		host = u.Host
	}
	return nameFor(host)
}

// client speaks to the cluster as whoever files the request: the user of the
// source context, or the bootstrap token of a join.
func (r *enrolment) client(ctx context.Context) (*csr.Client, error) {
	if r.filing != nil {
		return r.filing, nil
	}
	return NewEnroller(r.env).filer(ctx, r.j)
}

func (n Enroller) filer(ctx context.Context, j *Journal) (*csr.Client, error) {
	if renewal := j.Options.Renewal; renewal != nil {
		if renewal.With == "" {
			return n.env.access().ThroughBridge(ctx, j.Options.Name, n.env.Prompter)
		}
		return n.env.access().Client(ctx, renewal.With)
	}
	if j.Options.Join == nil {
		client, err := n.env.access().Client(ctx, j.Options.Context)
		if errors.Is(err, kubeconfig.ErrNoContext) {
			if _, loadErr := n.env.Enrollments().Load(j.Options.Name); loadErr == nil {
				err = hsm.Hintf(err, "%s was enrolled from that context; file the request with another one: `kubehsm certificate renew %s --with CONTEXT`", j.Options.Name, j.Options.Name)
			}
		}
		return client, err
	}
	token := j.Options.Join.Token
	if token.IsZero() {
		return nil, j.tokenNeeded()
	}
	config := clusterConfig(j.Cluster)
	config.Timeout, config.BearerToken = n.env.RequestTimeout, token.Reveal()
	return csr.NewClient(config)
}

// clusterConfig says how to reach a cluster, without any credential.
func clusterConfig(c enrollment.Cluster) *rest.Config {
	config := &rest.Config{Host: c.Server, TLSClientConfig: rest.TLSClientConfig{CAData: c.CAData, ServerName: c.TLSServerName}}
	if u, err := url.Parse(c.ProxyURL); c.ProxyURL != "" && err == nil { // checked when it was found
		config.Proxy = http.ProxyURL(u)
	}
	return config
}

// refusePolicy is the error for a key that the ticket does not allow, as far as
// can be told here: the help desk looks at the attestation itself.
func (o *JoinOptions) refusePolicy(attested bool, why error) error {
	if o == nil || o.Policy == 0 || attested {
		return nil
	}
	return hsm.WithHint(fmt.Errorf("the ticket asks for a key that its token attests: %w: %w", ErrTicket, why),
		"use a token that attests its keys, such as a YubiKey, or ask the help desk for another ticket")
}

// refuseSerial is the error for another token than the ticket's.
func (o *JoinOptions) refuseSerial(info hsm.TokenInfo) error {
	if o == nil || o.Serial == "" || o.Serial == info.Serial {
		return nil
	}
	return hsm.WithHint(fmt.Errorf("token %q has the serial number %q: %w: that is for %q", info.Name(), info.Serial, ErrTicket, o.Serial),
		"insert that token, or ask the help desk for a ticket for this one")
}

// expiredToken explains a credential that was good when the run began.
func (j *Journal) expiredToken(err error) error {
	if j.Options.Join == nil || j.Options.Renewal != nil || !errors.Is(err, csr.ErrUnauthorized) {
		return err
	}
	return hsm.Hintf(err, "the bootstrap token has expired or was deleted, as the help desk does once a request is approved or denied: "+
		"ask for the certificate and go on with `kubehsm join --name %s --certificate FILE`, or for another ticket", j.Options.Name)
}

// TakeCertificate puts a certificate that the user was sent into the record of
// the enrolment called name, which waits for it. It must be for its key.
func (n Joins) TakeCertificate(ctx context.Context, name string, pem []byte) error {
	release, err := n.env.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	j, err := NewStore(&n.env.Env).Load(name)
	if err != nil {
		return hsm.WithHint(err, "a certificate belongs to an enrolment that was begun: name it with --name")
	}
	cert, err := csr.ParseCertificate(pem)
	if err != nil {
		return err
	}
	if j.KeyHash == "" {
		return hsm.Hintf(fmt.Errorf("the enrolment %q has no key yet", name), "run `kubehsm join --name %s` first", name)
	}
	hash, err := hsm.Fingerprint(cert.Leaf.PublicKey)
	if err != nil {
		return err
	}
	if hash != j.KeyHash {
		return hsm.WithHint(fmt.Errorf("the certificate is for another key: %w", hsm.ErrKeyMismatch), "it belongs to another request, or another enrolment: see --name")
	}
	if got := cert.Subject(); !got.Equal(csr.Subject{User: j.Options.User, Groups: j.Options.Groups}) {
		return hsm.WithHint(fmt.Errorf("the certificate is for %q in %q, not %q in %q", got.User, got.Groups, j.Options.User, j.Options.Groups), "ask who issued it")
	}
	j.Certificate, j.Rejected = cert.PEM, false
	return NewStore(&n.env.Env).Save(j)
}

// completeSerial takes the token that the ticket is for.
func (n Enroller) completeSerial(ctx context.Context, o *EnrollOptions) error {
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
	return hsm.WithHint(fmt.Errorf("the ticket is for the token with the serial number %q: %w", o.Join.Serial, hsm.ErrNoToken),
		"insert that one; `kubehsm token list` shows what is found")
}

// with is the record of a join, gone on with what is given now.
func (o *JoinOptions) with(now *JoinOptions) *JoinOptions {
	if o == nil || now == nil {
		return o
	}
	both := *now
	fill(&both.Endpoint, o.Endpoint)
	fill(&both.File, o.File)
	fill(&both.UnsafeSkipCAVerification, o.UnsafeSkipCAVerification)
	fill(&both.Ticket, o.Ticket)
	fill(&both.Policy, o.Policy)
	fill(&both.Serial, o.Serial)
	if both.Pins == nil {
		both.Pins = o.Pins
	}
	if both.Seal == nil {
		both.Seal = o.Seal
	}
	return &both
}

// source names where the cluster of a join is found, "" for a context's.
func (o EnrollOptions) source() string {
	switch {
	case o.Join == nil:
		return ""
	case o.Join.File != "":
		return o.Join.File
	}
	return strings.TrimPrefix(o.Join.Endpoint, "https://")
}

// sourceFlags are the command's name and the flags for name, cluster and token.
// No secret is among them: "-" stands for it.
func (o EnrollOptions) sourceFlags() []string {
	named := []string{"--name", shellWord(o.Name)}
	if o.Join == nil {
		return append([]string{"kubehsm enroll"}, append(named, "--token", shellWord(o.Token.String()), "--context", shellWord(o.Context))...)
	}
	line := append([]string{"kubehsm join"}, named...)
	switch j := o.Join; {
	case j.Ticket != "":
		line = append(line, "--ticket", "-")
	case j.File != "":
		line = append(line, "--discovery-file", shellWord(j.File), "--tls-bootstrap-token", "-")
	default:
		line = append(line, shellWord(o.source()), "--token", "-")
		for _, p := range j.Pins {
			line = append(line, "--discovery-token-ca-cert-hash", p.String())
		}
		if j.UnsafeSkipCAVerification {
			line = append(line, "--discovery-token-unsafe-skip-ca-verification")
		}
	}
	return append(line, "--hsm", shellWord(o.Token.String()))
}
