package desk

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Stopping keeps revoked client certificates from writing in clusters, by the policies of
// package revocation.
type Stopping struct {
	env    *env.Env
	access cluster.Access
}

// NewStopping returns that of the clusters that e leads to.
func NewStopping(e *env.Env) Stopping { return Stopping{env: e, access: cluster.Access{Env: e}} }

// The risks that who revokes a certificate may accept.
const (
	// RiskOwn: it is the certificate in use.
	RiskOwn = "own"
	// RiskAdmin: it is one of the control plane or of system:masters.
	RiskAdmin = "admin"
)

// Target is a certificate that is to be revoked, and what is known of it.
type Target struct {
	revocation.Entry
	// Groups are those that the certificate names, nil if they are not known.
	Groups []string `json:"groups,omitempty"`
	// Request is the request it was issued for, "" if unknown.
	Request string `json:"request,omitempty"`
	// Token is the token whose certificate it is by the roster, "" if another source knows it. Then User
	// is the token's owner of today, who may be another than the certificate's.
	Token string `json:"token,omitempty"`
}

// Stop is the revocation of certificates in one cluster: what it does, and what it does not.
type Stop struct {
	Server  string   `json:"server"`
	Targets []Target `json:"targets"`
	// Tokens are retired on the roster, so that no key in them gets a certificate.
	Tokens []RosterEntry `json:"tokens,omitempty"`
	// Already are those that are on the list.
	Already []Target `json:"alreadyRevoked,omitempty"`
	// Refusals are why it is not done, Risks the words of --accept-risk that make warnings of them.
	Refusals []string `json:"refusals,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Risks    []string `json:"risks,omitempty"`
	// ByApprover says that the approver revokes them, as the caller may not. Patience is how long to wait
	// for that, zero for [ApproverPatience].
	ByApprover bool          `json:"byApprover,omitempty"`
	Patience   time.Duration `json:"-"`
	// Done is set by [Stopping.Stop].
	Done *Enforcement `json:"done,omitempty"`

	refused map[string]bool // the certificates that Refusals are about
}

// Allowed is the revocation of the targets that are not refused.
func (s Stop) Allowed() Stop {
	s.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(t Target) bool { return s.refused[t.Certificate] })
	s.Refusals = nil
	return s
}

// Enforcement is what became of a change to the list.
type Enforcement struct {
	// Approver says that the cluster's approver makes the change.
	Approver bool `json:"approver,omitempty"`
	// InForce says that the API server that answered enforces the change, After how long
	// that took. Otherwise Note says why that is not known.
	InForce bool          `json:"inForce"`
	After   time.Duration `json:"after,omitempty"`
	Note    string        `json:"note,omitempty"`
}

func (s Stopping) open(ctx context.Context, kubeContext string) (*objects, revocation.Ledger, error) {
	c, err := openObjects(ctx, s.access, kubeContext)
	return c, revocation.Ledger{API: ledgerAPI{c}}, err
}

// List reads the list of revoked certificates of a context's cluster. What the approver has still to put
// into a policy is in a shard of its own. A caller who may not list policies is not told whether they are bound.
func (s Stopping) List(ctx context.Context, kubeContext string) (revocation.List, error) {
	c, l, err := s.open(ctx, kubeContext)
	if err != nil {
		return revocation.List{}, err
	}
	list, err := l.Read(ctx)
	if isForbidden(err) {
		list, err = s.access.Revoked(ctx, kubeContext)
		for i := range list.Shards {
			list.Shards[i].Bound = true
		}
	}
	if isForbidden(err) {
		err = hint.With(err, "cluster admins and the help desk may read the list")
	}
	if err != nil {
		return list, err
	}
	all, _, err := readable(c.filed(ctx))
	waiting := revocation.Shard{Name: waitingPolicy, Bound: true, Settings: list.Settings}
	for _, f := range all {
		for _, e := range f.Entries() {
			if _, on := list.Find(e.Certificate, ""); !on {
				waiting.Entries = append(waiting.Entries, e)
			}
		}
	}
	if len(waiting.Entries) > 0 {
		list.Shards = append(list.Shards, waiting)
	}
	return list, err
}

// Broken is the list of a context's cluster as far as it tells which policies are broken: empty where the
// cluster does not know them, or the caller may not read them.
func (s Stopping) Broken(ctx context.Context, kubeContext string) (revocation.List, error) {
	list, err := s.List(ctx, kubeContext)
	if isForbidden(err) || isUnserved(err) {
		return revocation.List{}, nil
	}
	return list, err
}

// Find says what the revocation of what is sought would do. A token that is sought by itself is retired too, if it is on
// the roster, whether it has a certificate or not.
func (s Stopping) Find(ctx context.Context, kubeContext string, w Sought, accept []string) (Stop, error) {
	_, serial, _, err := w.read()
	if err != nil {
		return Stop{}, err
	}
	var tokens []RosterEntry
	var unseen string
	if serial != "" && w.Fingerprint == "" && w.Serial == "" {
		c, err := openObjects(ctx, s.access, kubeContext)
		if err != nil {
			return Stop{}, err
		}
		tokens, unseen, err = c.inUse(ctx, func(e RosterEntry) bool {
			return e.Serial == serial && (w.User == "" || w.User == e.Owner)
		})
		if err != nil {
			return Stop{}, err
		}
	}
	targets, err := s.Targets(ctx, kubeContext, w)
	if err != nil && (len(tokens) == 0 || !errors.Is(err, errNoneKnown)) {
		return Stop{}, err
	}
	stop, err := s.LookUp(ctx, kubeContext, targets, accept)
	if stop.Tokens = tokens; unseen != "" {
		stop.Warnings = append(stop.Warnings, unseen+": the token is not retired, and may get another certificate")
	}
	return stop, err
}

// LookUp says what the revocation of targets in the cluster of a context would do. accept
// are the risks that were accepted.
func (s Stopping) LookUp(ctx context.Context, kubeContext string, targets []Target, accept []string) (Stop, error) {
	at, err := s.access.Verified(ctx, kubeContext)
	if err != nil {
		return Stop{}, err
	}
	stop := Stop{Server: at.Server, Targets: []Target{}}
	c, l, err := s.open(ctx, kubeContext)
	if err != nil {
		return stop, err
	}
	may, err := c.mayRevoke(ctx)
	if err == nil && !may {
		stop.ByApprover, err = c.mayFile(ctx)
	}
	if err != nil {
		return stop, err
	}
	if !may && !stop.ByApprover {
		return stop, hint.With(errMayNot, "have a cluster admin run the command, or install the approver, which revokes for "+
			"the help desk")
	}
	var list revocation.List
	if may {
		list, err = l.Read(ctx)
	} else if list, err = s.List(ctx, kubeContext); isForbidden(err) { // the approver reads it
		stop.Warnings, err = append(stop.Warnings, "you may not read which certificates are revoked already"), nil
	}
	if err != nil {
		return stop, err
	}
	minor, err := c.minor(ctx)
	switch {
	case err != nil:
		stop.Warnings = append(stop.Warnings, fmt.Sprintf("the cluster's version is not known (%v): Kubernetes before 1.%d "+
			"takes the policies and refuses nobody; `kubehsm revocation check` tells", err, revocation.MinMinor))
	case minor < revocation.MinMinor:
		return stop, hint.With(fmt.Errorf("%w: it is Kubernetes 1.%d, whose policies see no certificates", errTooOld, minor),
			"take the user's bindings away, and wait until the certificate ends")
	}
	if err := list.Err(); err != nil {
		stop.Warnings = append(stop.Warnings, err.Error())
	}
	client, err := s.access.Client(ctx, kubeContext)
	if err != nil {
		return stop, err
	}
	me, err := client.Rights().WhoAmI(ctx)
	if err != nil && !errors.Is(err, csr.ErrNotServed) {
		return stop, err
	}
	for _, t := range targets {
		if _, on := list.Find(t.Certificate, ""); on && (may || list.Covers(t.Entry)) { // put writes an admin's again
			stop.Already = append(stop.Already, t)
			for e, shard := range list.All() {
				if e.Certificate == t.Certificate && shard.Name == waitingPolicy {
					stop.Warnings = append(stop.Warnings, "the revocation of the certificate "+t.Certificate[:16]+
						" is filed, but the approver has not put it in force yet")
				}
			}
			continue
		}
		stop.Targets = append(stop.Targets, t)
		stop.judge(t, list.Settings, me, accept)
	}
	return stop, nil
}

// errTooOld is a cluster whose policies would refuse nobody.
var errTooOld = fmt.Errorf("this cluster cannot revoke certificates, which needs Kubernetes 1.%d", revocation.MinMinor)

// minor is the minor version of Kubernetes 1 that the cluster runs.
func (c *objects) minor(ctx context.Context) (int, error) {
	v, err := c.do(ctx, "read the version", c.rest.Get().AbsPath("/version"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSuffix(v.text("minor"), "+")) // some providers add a plus
}

// judge refuses what has no effect or is dangerous.
func (s *Stop) judge(t Target, settings revocation.Settings, me csr.Identity, accept []string) {
	refuse := func(risk, why string) {
		if slices.Contains(accept, risk) {
			s.Warnings = append(s.Warnings, why)
			return
		}
		s.Refusals = append(s.Refusals, why)
		if s.refused == nil {
			s.refused = map[string]bool{}
		}
		s.refused[t.Certificate] = true
		if risk != "" && !slices.Contains(s.Risks, risk) {
			s.Risks = append(s.Risks, risk)
		}
	}
	whose := fmt.Sprintf("the certificate %s of %q", t.Certificate[:16], t.User)
	if t.Ended(me.At) {
		refuse("", whose+" has ended already")
	}
	if t.Certificate == revocation.Used(me.Extra) {
		refuse(RiskOwn, whose+" is the one that you use: you could not write any more")
	}
	switch {
	case slices.Contains(t.Groups, "system:nodes"):
		refuse("", whose+" is a node's: the policies never refuse nodes, so that revoking it would have no effect")
		return
	case slices.Contains(t.Groups, settings.SparedGroup()):
		refuse("", whose+" is in the recovery group "+settings.SparedGroup()+", which the policies never refuse")
		return
	case slices.Contains(t.Groups, "system:masters"):
		refuse(RiskAdmin, whose+" is in system:masters: whoever has it may still delete the policies")
	}
	if t.Groups == nil {
		s.Warnings = append(s.Warnings, whose+" has groups that are not known here: the policies never refuse nodes and the "+
			"group "+settings.SparedGroup())
	}
	switch {
	case strings.HasPrefix(t.User, "system:") && s.ByApprover:
		refuse("", whose+" belongs to the control plane: only a cluster admin may revoke it")
	case strings.HasPrefix(t.User, "system:"):
		refuse(RiskAdmin, whose+" belongs to the control plane")
	}
}

// Err is the error for what is refused; nil if nothing is.
func (s Stop) Err() error {
	if len(s.Refusals) == 0 {
		return nil
	}
	return s.risky(fmt.Errorf("not revoked: %s", strings.Join(s.Refusals, "; ")))
}

// risky is err with the risks that can be accepted in its hint.
func (s Stop) risky(err error) error {
	if len(s.Risks) > 0 {
		return hint.Withf(err, "if that is what you want, add --accept-risk=%s", strings.Join(s.Risks, ","))
	}
	return err
}

// Stop puts the targets on the cluster's list, with the reason, and waits until the API
// server enforces it.
func (s Stopping) Stop(ctx context.Context, kubeContext string, stop *Stop, reason string) error {
	if err := stop.Err(); err != nil {
		return err
	}
	if _, err := NewRoster(s.env).Remove(ctx, kubeContext, stop.Tokens, false); err != nil { // first: no new certificate meanwhile
		return err
	}
	c, l, err := s.open(ctx, kubeContext)
	if err != nil || len(stop.Targets)+len(stop.Already) == 0 {
		return err
	}
	by, now, err := s.author(ctx, kubeContext)
	if err != nil {
		return err
	}
	if stop.ByApprover {
		return c.file(ctx, stop, by, reason)
	}
	// Those on the list are written with the others: a command that was killed may have
	// put them there, and the API server enforces them after a moment.
	var entries []revocation.Entry
	for _, t := range slices.Concat(stop.Targets, stop.Already) {
		t.Reason, t.By, t.At = reason, by, now
		if now.IsZero() {
			t.At = time.Now()
		}
		entries = append(entries, t.Entry)
	}
	shards, err := l.Revoke(ctx, now, entries...)
	if err != nil {
		return err
	}
	stop.Done = c.enforced(ctx, l, shards)
	return ctx.Err()
}

// mayRevoke tells whether the caller may write the list.
func (c *objects) mayRevoke(ctx context.Context) (bool, error) {
	for _, kind := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		for _, verb := range []string{"list", "create", "update"} {
			ok, err := c.may(ctx, access{Verb: verb, Group: "admissionregistration.k8s.io", Resource: kind})
			if err != nil || !ok {
				return false, err
			}
		}
	}
	return true, nil
}

// clock is the time by the cluster's clock, zero if the cluster does not tell: then no entry has
// ended, and the change is made all the same.
func (s Stopping) clock(ctx context.Context, kubeContext string) time.Time {
	_, now, err := s.author(ctx, kubeContext)
	if err != nil {
		return time.Time{}
	}
	return now
}

// author is who the cluster takes the caller for, else the name on this computer, and the
// time by the cluster's clock, zero if that is not known: by a wrong one live entries end.
func (s Stopping) author(ctx context.Context, kubeContext string) (string, time.Time, error) {
	client, err := s.access.Client(ctx, kubeContext)
	if err != nil {
		return "", time.Time{}, err
	}
	me, err := client.Rights().WhoAmI(ctx)
	if err == nil {
		return me.User, me.At, nil
	}
	if !errors.Is(err, csr.ErrNotServed) {
		return "", time.Time{}, err
	}
	u, err := user.Current()
	if err != nil {
		return "", time.Time{}, err
	}
	return u.Username, time.Time{}, nil
}

// Lift takes certificates off the list of a context's cluster.
func (s Stopping) Lift(ctx context.Context, kubeContext string, certificates []string) (*Enforcement, error) {
	c, l, err := s.open(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	var filed map[string]bool
	list, err := l.Read(ctx)
	if err == nil { // first where the approver would find them, and put them back
		filed, err = c.unfile(ctx, certificates)
	}
	if err == nil { // the approver may have put the certificates on the list meanwhile
		list, err = l.Read(ctx)
	}
	if err != nil {
		return nil, err
	}
	on := slices.DeleteFunc(slices.Clone(certificates), func(hash string) bool {
		_, on := list.Find(hash, "")
		return filed[hash] && !on
	})
	shards, err := l.Lift(ctx, s.clock(ctx, kubeContext), on...)
	if errors.Is(err, revocation.ErrNotRevoked) {
		err = hint.With(err, "`kubehsm revocation list` shows what is revoked")
	}
	if err != nil {
		return nil, err
	}
	return c.enforced(ctx, l, shards), nil
}

// Configure gives the policies of a context's cluster other settings.
func (s Stopping) Configure(ctx context.Context, kubeContext string, settings revocation.Settings) (*Enforcement,
	error) {
	c, l, err := s.open(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	shards, err := l.Configure(ctx, s.clock(ctx, kubeContext), settings)
	if errors.Is(err, revocation.ErrSpared) {
		err = hint.With(err, "the help desk gives out no such groups; leave it away to spare "+revocation.RecoveryGroup)
	}
	if err != nil {
		return nil, err
	}
	return c.enforced(ctx, l, shards), nil
}

// enforced waits until the API server that answers enforces the shards.
func (c *objects) enforced(ctx context.Context, l revocation.Ledger, shards []revocation.Shard) *Enforcement {
	began := time.Now()
	if err := l.Await(ctx, shards, c.probe); err != nil {
		return &Enforcement{Note: err.Error()}
	}
	return &Enforcement{InForce: true, After: time.Since(began).Round(time.Millisecond)}
}

// probe creates a ConfigMap in a dry run. A shard that is in force refuses it in words of its own.
func (c *objects) probe(ctx context.Context, name string) error {
	meta := map[string]any{"namespace": "default", "name": name}
	return c.tryCreate(ctx, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
}
