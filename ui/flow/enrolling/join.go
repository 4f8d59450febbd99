package enrolling

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
)

// Join says how a cluster is found that no kubeconfig names, and who
// files the request there. What is secret in it is not recorded: a run that
// still needs it must be given it again.
type Join struct {
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
	// FileOnly files the request in the place of Token, see SetToken.
	FileOnly *hsm.Secret `json:"-"`
	// Timeout bounds the discovery; 0 is [discovery.DefaultTimeout].
	Timeout time.Duration `json:"-"`

	// Ticket names the ticket's token where there is one; Policy and Serial are
	// its conditions.
	Ticket string        `json:"ticket,omitempty"`
	Policy ticket.Policy `json:"policy,omitzero"`
	Serial string        `json:"serial,omitempty"`

	// Found is what a review has found, for the enrollment that follows.
	Found *cluster.Cluster `json:"-"`
}

// ErrTicket: what is asked for is not what the ticket is for.
var ErrTicket = errors.New("not what the ticket is for")

// UseTicket takes from t the cluster and what to ask for. What o says already
// must agree ([ErrTicket]); a ticket whose time is up is [ticket.ErrExpired].
func (o *Options) UseTicket(t ticket.Ticket) error {
	if err := t.Expired(time.Now()); err != nil {
		return err
	}
	differs := func(what, asked, says string) error {
		return hint.With(fmt.Errorf("%s %q: %w: that says %q", what, asked, ErrTicket, says),
			"leave it out, or ask the help desk for another ticket")
	}
	groups := strings.Join(t.Groups, ", ")
	switch {
	case o.User != "" && o.User != t.User:
		return differs("user", o.User, t.User)
	case o.Groups != nil && !slices.Equal(o.Groups, t.Groups):
		return differs("groups", strings.Join(o.Groups, ", "), groups)
	case o.SignerName != "" && o.SignerName != cmp.Or(t.Signer, csr.ClientSigner):
		return differs("signer", o.SignerName, cmp.Or(t.Signer, csr.ClientSigner))
	case o.Expiration != 0 && t.Lifetime != 0 && o.Expiration > t.Lifetime:
		return differs("lifetime", o.Expiration.String(), t.Lifetime.String())
	case !o.Attests() && t.Policy != 0:
		return hint.With(fmt.Errorf("a request without attestation: %w", ErrTicket), "the ticket asks for "+t.Policy.String())
	}
	if err := o.usePolicy(t.Policy); err != nil {
		return err
	}
	o.User, o.Groups = t.User, t.Groups
	Fill(&o.SignerName, cmp.Or(t.Signer, csr.ClientSigner))
	Fill(&o.Expiration, t.Lifetime)
	Fill(&o.Name, Slug(t.Name))
	o.Join = &Join{
		Endpoint: t.Server, Pins: t.Pins, DiscoveryToken: t.Token, Token: t.Token,
		Ticket: t.Token.ID(), Policy: t.Policy, Serial: t.Serial,
	}
	return nil
}

// usePolicy has a new key made as p asks; a stricter one may be asked for.
func (o *Options) usePolicy(p ticket.Policy) error {
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
	Fill(&o.Generate.Touch, touch)
	Fill(&o.Generate.PIN, pin)
	if o.Generate.Touch < touch || o.Generate.PIN < pin { // policies in rising order
		return hint.With(fmt.Errorf("PIN policy %s, touch policy %s: %w", o.Generate.PIN, o.Generate.Touch, ErrTicket),
			"the ticket asks for "+p.String())
	}
	return nil
}

// Discovery is how the cluster is looked for; waiting hears why that takes long.
func (o *Join) Discovery(waiting func(error)) discovery.Options {
	d := discovery.Options{Limits: discovery.Limits{Timeout: o.Timeout, Waiting: waiting}, File: o.File}
	switch o.File {
	case "":
		d.Endpoint, d.Token = o.Endpoint, o.DiscoveryToken
		d.Pins, d.UnsafeSkipCAVerification = o.Pins, o.UnsafeSkipCAVerification
	case discovery.Stdin:
		d.Stdin = bytes.NewReader(o.Document)
	}
	return d
}

// JoinName proposes the name of an enrollment.
func (o *Join) JoinName() string {
	if discovery.IsData(o.File) {
		return NameFor("cluster")
	}
	if o.File != "" {
		base := filepath.Base(o.File)
		return NameFor(strings.TrimSuffix(base, filepath.Ext(base)))
	}
	host := o.Endpoint
	if u, err := url.Parse(o.Endpoint); err == nil && u.Host != "" {
		host = u.Host
	}
	return NameFor(host)
}

// RefusePolicy is the error for a key that the ticket does not allow, as far as
// can be told here: the help desk looks at the attestation itself.
func (o *Join) RefusePolicy(attested bool, why error) error {
	if o == nil || o.Policy == 0 || attested {
		return nil
	}
	return hint.With(fmt.Errorf("the ticket asks for a key that its token attests: %w: %w", ErrTicket, why),
		"use a token that attests its keys, such as a YubiKey, or ask the help desk for another ticket")
}

// RefuseSerial is the error for another token than the ticket's.
func (o *Join) RefuseSerial(info hsm.TokenInfo) error {
	if o == nil || o.Serial == "" || o.Serial == info.Serial {
		return nil
	}
	return hint.With(
		fmt.Errorf("token %q has the serial number %q: %w: that is for %q", info.Name(), info.Serial, ErrTicket, o.Serial),
		"use that token, or ask the help desk for a ticket for this one")
}

// With is a join as it is recorded, continued with what is given now.
func (o *Join) With(now *Join) *Join {
	if o == nil || now == nil {
		return o
	}
	both := *now
	Fill(&both.Endpoint, o.Endpoint)
	Fill(&both.File, o.File)
	Fill(&both.UnsafeSkipCAVerification, o.UnsafeSkipCAVerification)
	Fill(&both.Ticket, o.Ticket)
	Fill(&both.Policy, o.Policy)
	Fill(&both.Serial, o.Serial)
	if both.Pins == nil {
		both.Pins = o.Pins
	}
	return &both
}

// source names where the cluster of a join is found, "" for a context's.
func (o Options) source() string {
	switch {
	case o.Join == nil:
		return ""
	case o.Join.File != "":
		return o.Join.File
	}
	return strings.TrimPrefix(o.Join.Endpoint, "https://")
}
