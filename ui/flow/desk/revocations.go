package desk

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// Revocation is what a user has in a cluster, and what can be done about it: what their
// certificates allow can be taken away, and the certificates kept from writing.
type Revocation struct {
	User   string `json:"user"`
	Server string `json:"server"`
	// Bindings name the user: they can be removed.
	Bindings []BindingView `json:"bindings"`
	// GroupBindings name a group of the user's live certificates: they are not
	// removed, since others are in the group.
	GroupBindings []BindingView `json:"groupBindings"`
	// Certificates are those that are known and live.
	Certificates []CertificateView `json:"certificates"`
	// Reason is what the certificates' user reads when they are refused; it may be empty.
	Reason string `json:"reason,omitempty"`
	// Stop revokes the certificates; nil if none can be.
	Stop *Stop `json:"stop,omitempty"`
	// Pending requests for the user can be denied; Approved ones that nobody has
	// signed yet deleted, before somebody does; Tickets for the user ended.
	Pending  []string `json:"pendingRequests"`
	Approved []string `json:"approvedRequests"`
	Tickets  []string `json:"tickets"`
	// Tokens are those of the user on the roster, by serial number: they are retired, so that no key in them gets a
	// certificate.
	Tokens []string `json:"tokens,omitempty"`
	// Unknown is what could not be looked up.
	Unknown []string `json:"unknown,omitempty"`
	// Unseen is what could not be taken away because it may not be looked at.
	Unseen []string `json:"unseen,omitempty"`
	// Done and Failed are filled by [Revocations.Revoke].
	Done   []string `json:"done,omitempty"`
	Failed []string `json:"failed,omitempty"`

	requests map[string]request.View
	tokens   []RosterEntry
}

// Revocations finds and takes away what users have in clusters.
type Revocations struct {
	env    *env.Env
	access cluster.Access
}

// NewRevocations returns those of the clusters that e leads to.
func NewRevocations(e *env.Env) Revocations {
	return Revocations{env: e, access: cluster.Access{Env: e}}
}

// BindingView is a role binding, as far as it is one subject's.
type BindingView struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Role      string `json:"role"`
	Subject   string `json:"subject"`
	// Alone: it binds nobody else, so that the whole binding goes.
	Alone bool `json:"alone"`

	from object
}

// String says it in words.
func (b BindingView) String() string {
	s := strings.ToLower(b.Kind) + " " + b.Name
	if b.Namespace != "" {
		s += " in " + b.Namespace
	}
	return s + ": " + b.Role
}

// CertificateView is a live certificate that is known from a request, or from
// the roster.
type CertificateView struct {
	Request     string    `json:"request"`
	Groups      []string  `json:"groups,omitempty"`
	Fingerprint string    `json:"fingerprint"`
	NotAfter    time.Time `json:"notAfter"`

	hash  string // the certificate's SHA-256, "" if unknown
	token string // as [Target].Token
}

// Until is when the last of the certificates that are known and revoked ends, or of those that are not; zero if there
// is none.
func (r Revocation) Until(revoked bool) time.Time {
	var last time.Time
	for _, c := range r.Certificates {
		if r.Revoked(c) == revoked && c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last
}

// LookUp finds what user has in the cluster of a context. Groups are
// those that the user's certificates are known to have besides what is found, accept the
// risks that were accepted.
func (w Revocations) LookUp(
	ctx context.Context,
	kubeContext, user string,
	groups, accept []string,
) (Revocation, error) {
	cluster, err := w.access.Verified(ctx, kubeContext)
	if err != nil {
		return Revocation{}, err
	}
	r := Revocation{User: user, Server: cluster.Server, Bindings: []BindingView{}, GroupBindings: []BindingView{},
		Certificates: []CertificateView{}, Pending: []string{}, Approved: []string{}, Tickets: []string{},
		requests: map[string]request.View{}}
	found, err := w.lookUpRequests(ctx, kubeContext, &r)
	if err != nil {
		return r, err
	}
	for _, g := range groups {
		found[g] = true
	}
	if err := w.lookUpBindings(ctx, kubeContext, &r, found); err != nil {
		return r, err
	}
	if err := w.lookUpTickets(ctx, kubeContext, &r); err != nil {
		return r, err
	}
	if err := w.lookUpTokens(ctx, kubeContext, &r); err != nil {
		return r, err
	}
	return r, w.lookUpStop(ctx, kubeContext, &r, accept)
}

// lookUpStop finds whether the certificates can be kept from writing.
func (w Revocations) lookUpStop(ctx context.Context, kubeContext string, r *Revocation, accept []string) error {
	var targets []Target
	for _, c := range r.Certificates {
		if _, err := revocation.ParseFingerprint(c.hash); err == nil {
			e := revocation.Entry{Certificate: c.hash, Key: c.Fingerprint, User: r.User, NotAfter: c.NotAfter}
			targets = append(targets, Target{Entry: e, Groups: c.Groups, Request: c.Request, Token: c.token})
		}
	}
	if len(targets) == 0 {
		return nil
	}
	stop, err := Stopping(w).LookUp(ctx, kubeContext, targets, accept)
	switch {
	case errors.Is(err, errMayNot):
		r.Unseen = append(r.Unseen, "certificates: "+errMayNot.Error())
		return nil
	case isUnserved(err) || errors.Is(err, errTooOld):
		r.Unknown = append(r.Unknown, "certificates: "+errTooOld.Error())
		return nil
	}
	r.Stop = &stop
	return err
}

// lookUpRequests finds certificates and pending requests, and the groups of the
// former.
func (w Revocations) lookUpRequests(ctx context.Context, kubeContext string, r *Revocation) (groups map[string]bool,
	err error) {
	groups = map[string]bool{}
	client, err := w.access.Client(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	for obj, err := range client.List(ctx, csr.ListOptions{}) {
		if err != nil {
			if csr.IsForbidden(err) {
				r.Unseen = append(r.Unseen, "requests and certificates: you may not list requests")
				break
			}
			return nil, err
		}
		v := request.ViewOf(obj)
		if v.User != r.User {
			continue
		}
		switch v.State {
		case csr.Pending.String():
			r.Pending, r.requests[v.Name] = append(r.Pending, v.Name), v
			continue
		case csr.Approved.String():
			r.Approved, r.requests[v.Name] = append(r.Approved, v.Name), v
			continue
		}
		cert, err := csr.ParseCertificate(obj.Status.Certificate)
		if err != nil || !cert.Leaf.NotAfter.After(time.Now()) {
			continue // none, or over
		}
		s := cert.Subject()
		r.Certificates = append(
			r.Certificates,
			CertificateView{Request: v.Name, Groups: append([]string{}, s.Groups...), Fingerprint: v.Fingerprint,
				NotAfter: cert.Leaf.NotAfter, hash: certificateHash(cert)},
		)
		for _, g := range s.Groups {
			groups[g] = true
		}
	}
	c, err := openObjects(ctx, w.access, kubeContext)
	if err != nil {
		return nil, err
	}
	tokens, err := c.rostered(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		if t.User == r.User && !t.Ended(time.Now()) && !slices.ContainsFunc(r.Certificates,
			func(c CertificateView) bool { return c.hash == t.Certificate }) {
			r.Certificates = append(r.Certificates, CertificateView{Fingerprint: t.Key, NotAfter: t.NotAfter,
				hash: t.Certificate, token: t.Token})
		}
	}
	r.Unknown = append(r.Unknown, "certificates that were issued more than an hour ago, and are not on the "+
		"roster: the cluster keeps no list of them")
	return groups, nil
}

func (w Revocations) lookUpBindings(ctx context.Context, kubeContext string, r *Revocation,
	groups map[string]bool) error {
	c, err := openObjects(ctx, w.access, kubeContext)
	if err != nil {
		return err
	}
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		err := c.list(ctx, object{"apiVersion": rbacGroup + "/v1", "kind": kind}, func(o object) {
			b := BindingView{Kind: kind, Namespace: o.namespace(), Name: o.name(), Subject: r.User,
				Role: o.text("roleRef", "kind") + " " + o.text("roleRef", "name"), Alone: len(subjectsOf(without(o, r.User))) == 0,
				from: o}
			subjects := subjectsOf(o)
			if slices.ContainsFunc(subjects, func(s object) bool { return s.isUser(r.User) }) {
				r.Bindings = append(r.Bindings, b)
			}
			for _, s := range subjects {
				if b.Subject = s.text("name"); s.kind() == "Group" && groups[b.Subject] {
					r.GroupBindings = append(r.GroupBindings, b)
				}
			}
		})
		if isForbidden(err) {
			r.Unseen = append(r.Unseen, strings.ToLower(kind)+"s: you may not list them")
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isUser tells whether a binding's subject is that user.
func (o object) isUser(name string) bool { return o.kind() == "User" && o.text("name") == name }

func subjectsOf(o object) []object {
	list, _ := o["subjects"].([]any)
	var all []object
	for _, s := range list {
		if m, ok := s.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

func (w Revocations) lookUpTokens(ctx context.Context, kubeContext string, r *Revocation) error {
	c, err := openObjects(ctx, w.access, kubeContext)
	if err != nil {
		return err
	}
	all, unseen, err := c.inUse(ctx, func(e RosterEntry) bool { return e.Owner == r.User })
	if unseen != "" {
		r.Unseen = append(r.Unseen, unseen)
	}
	r.tokens = all
	for _, e := range all {
		r.Tokens = append(r.Tokens, e.Serial)
	}
	return err
}

func (w Revocations) lookUpTickets(ctx context.Context, kubeContext string, r *Revocation) error {
	tokens, err := w.access.BootstrapTokens(ctx, kubeContext)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	records, _, err := tokens.List(ctx)
	switch {
	case errors.Is(err, bootstraptoken.ErrForbidden):
		r.Unseen = append(r.Unseen, "tickets: you may not list secrets")
	case err != nil:
		return err
	}
	for _, t := range records {
		if terms, err := ticket.ParseDescription(t.Description); err == nil && terms.User == r.User &&
			!t.Expired(time.Now()) {
			ids[t.Token.ID()] = true
		}
		t.Token.Wipe()
	}
	r.Tickets = append(r.Tickets, slices.Sorted(maps.Keys(ids))...)
	return nil
}

// Revoke removes what r found and the caller may remove: the user's own
// bindings, pending requests, tickets. What could not be is in Failed.
func (w Revocations) Revoke(ctx context.Context, kubeContext string, r *Revocation) error {
	c, err := openObjects(ctx, w.access, kubeContext)
	if err != nil {
		return err
	}
	tell := func(what string, err error) {
		if err != nil {
			r.Failed = append(r.Failed, what+": "+err.Error())
		} else {
			r.Done = append(r.Done, what)
		}
	}
	for _, e := range r.tokens { // first: no new certificate is issued while the others are revoked
		_, err := NewRoster(w.env).Remove(ctx, kubeContext, []RosterEntry{e}, false)
		tell("token "+e.Serial+" retired", err)
	}
	for _, id := range r.Tickets {
		// another desk may have ended it
		tell("ticket "+id+" ended", request.NewRequests(w.env).EndTicket(ctx, kubeContext, id))
	}
	for _, name := range r.Pending {
		_, err := request.NewRequests(w.env).Decide(ctx, kubeContext, r.requests[name],
			request.DecideOptions{Decision: csr.Decision{Reason: "KubehsmRevoked", Message: "the user's access was taken away"}})
		tell("request "+name+" denied", err)
	}
	if len(r.Approved) > 0 {
		client, err := w.access.Client(ctx, kubeContext)
		if err != nil {
			return err
		}
		for _, name := range r.Approved {
			tell("request "+name+" deleted", client.Delete(ctx, csr.Ref{Name: name, UID: types.UID(r.requests[name].UID)}))
		}
	}
	if r.Stop != nil {
		r.Failed = append(r.Failed, r.Stop.Refusals...)
		// Those on the list are written with the others: they may only be filed, or written by a command that was killed.
		if stop := r.Stop.Allowed(); len(stop.Targets)+len(stop.Already) > 0 {
			err := Stopping(w).Stop(ctx, kubeContext, &stop, cmp.Or(r.Reason, "access for "+r.User+" was revoked"))
			r.Stop.Done = stop.Done
			if err == nil {
				err = stop.Pending()
			}
			for _, t := range stop.Targets {
				tell("certificate "+t.Certificate[:16]+" revoked", err)
			}
			for _, t := range stop.Already {
				tell("certificate "+t.Certificate[:16]+" revoked already", err)
			}
		}
	}
	for _, b := range r.Bindings {
		if b.Alone {
			tell(b.String()+" removed", c.delete(ctx, b.from))
			continue
		}
		tell(b.String()+": "+r.User+" taken out", c.replace(ctx, without(b.from, r.User)))
	}
	return nil
}

// without is a binding that no longer names the user.
func without(o object, user string) object {
	o = maps.Clone(o)
	var left []any
	for _, s := range subjectsOf(o) {
		if !s.isUser(user) {
			left = append(left, map[string]any(s))
		}
	}
	o["subjects"] = left
	return o
}
