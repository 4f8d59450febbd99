package desk

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Trial proves that revocation works in a cluster, with a certificate of its own. Its key is
// in this process's memory only, the certificate lives ten minutes, and its user may create
// ConfigMaps in the namespace default and nothing else.
type Trial struct {
	stopping Stopping
	patience time.Duration // how long an answer may take to become the one that is wanted
}

// NewTrial returns the trial for the clusters that e leads to.
func NewTrial(e *env.Env) Trial { return Trial{NewStopping(e), revocation.EnforcedWithin} }

// TrialStep is one thing that was tried.
type TrialStep struct {
	// What was tried, and OK whether it went as it should.
	What string `json:"what"`
	OK   bool   `json:"ok"`
	// Note is the cluster's answer, or how long it took.
	Note string `json:"note,omitempty"`
}

// trialUser begins the names of the trial's users, objects and requests.
const trialUser = "kubehsm-revocation-check-"

// Run requests a certificate, writes with it, revokes it, tries again, lifts the revocation
// and writes again. It removes what it has made, also when it is interrupted. A process that
// is killed leaves a role for a user whose certificate ends within ten minutes.
func (t Trial) Run(ctx context.Context, kubeContext string) (steps []TrialStep, err error) {
	c, l, err := t.stopping.open(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	if _, err := l.Read(ctx); err != nil {
		return nil, err
	}
	random := make([]byte, 5)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	name := trialUser + hex.EncodeToString(random)
	defer func() { err = errors.Join(err, c.removeTrial(context.WithoutCancel(ctx), name)) }()
	if err := c.allowTrial(ctx, name); err != nil {
		return nil, err
	}
	writer, entry, err := t.certified(ctx, kubeContext, name)
	if err != nil {
		return nil, err
	}
	took := func(began time.Time) string {
		return fmt.Sprintf("after %s", time.Since(began).Round(10*time.Millisecond))
	}
	add := func(step TrialStep) { // an interrupted step tells nothing
		if ctx.Err() == nil {
			steps = append(steps, step)
		}
	}
	try := func(what string, wanted func(error) bool) {
		began := time.Now()
		err := writer.probe(ctx, name)
		for !wanted(err) && time.Since(began) < t.patience && ctx.Err() == nil { // roles too take a moment to count
			select {
			case <-ctx.Done():
			case <-time.After(revocation.EnforcedEvery):
			}
			err = writer.probe(ctx, name)
		}
		step := TrialStep{What: what, OK: wanted(err)}
		if err != nil {
			step.Note = err.Error()
		}
		add(step)
	}
	works := func(err error) bool { return err == nil }
	try("the certificate writes", works)

	began := time.Now()
	defer func() { // an entry that is left ends with the certificate
		_, lerr := l.Lift(context.WithoutCancel(ctx), time.Time{}, entry.Certificate)
		if !errors.Is(lerr, revocation.ErrNotRevoked) {
			err = errors.Join(err, lerr)
		}
	}()
	entry.Reason, entry.By, entry.At = "a check by kubehsm", name, began
	shards, err := l.Revoke(ctx, time.Time{}, entry)
	if err != nil {
		return steps, err
	}
	in := c.enforced(ctx, l, shards)
	note := in.Note
	if in.InForce {
		note = took(began)
	}
	add(TrialStep{What: "the API server enforces the revocation", OK: in.InForce, Note: note})
	try("the revoked certificate does not write", revocation.IsRefusal)
	_, err = writer.get(ctx, object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "default", "name": name}})
	add(TrialStep{What: "it reads on, until it ends", OK: isNotFound(err)})

	if shards, err = l.Lift(ctx, time.Time{}, entry.Certificate); err != nil {
		return steps, err
	}
	in = c.enforced(ctx, l, shards)
	add(TrialStep{What: "the API server enforces that it is lifted", OK: in.InForce, Note: in.Note})
	try("the certificate writes again", works)
	return steps, ctx.Err()
}

// TrialErr is the error for a trial in which not all went as it should; nil if it did.
func TrialErr(steps []TrialStep) error {
	for _, s := range steps {
		if !s.OK {
			return hint.With(fmt.Errorf("revocation does not work here: this step failed: %s", s.What),
				"it needs Kubernetes 1.32 and the admission plugin ValidatingAdmissionPolicy")
		}
	}
	return nil
}

// trialObjects are the role of the trial's user, and its binding.
func trialObjects(name string) []object {
	meta := map[string]any{"name": name, "namespace": "default"}
	return []object{
		{"apiVersion": rbacGroup + "/v1", "kind": "Role", "metadata": meta, "rules": []any{
			map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"create"}},
			map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get"},
				"resourceNames": []any{name}}}},
		{"apiVersion": rbacGroup + "/v1", "kind": "RoleBinding", "metadata": meta,
			"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": "Role", "name": name},
			"subjects": []any{map[string]any{"apiGroup": rbacGroup, "kind": "User", "name": name}}},
	}
}

func (c *objects) allowTrial(ctx context.Context, name string) error {
	for _, o := range trialObjects(name) {
		if err := c.create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (c *objects) removeTrial(ctx context.Context, name string) error {
	var errs []error
	for _, o := range trialObjects(name) {
		live, err := c.get(ctx, o)
		if err == nil {
			live["apiVersion"], live["kind"] = o["apiVersion"], o["kind"]
			err = c.delete(ctx, live)
		}
		if !isNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// certified has the cluster certify a new key, and returns what writes with it.
func (t Trial) certified(ctx context.Context, kubeContext, user string) (*objects, revocation.Entry, error) {
	fail := func(err error) (*objects, revocation.Entry, error) { return nil, revocation.Entry{}, err }
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	text, err := csr.NewRequest(key, csr.Subject{User: user}, csr.RequestOptions{})
	if err != nil {
		return fail(err)
	}
	client, err := t.stopping.access.Client(ctx, kubeContext)
	if err != nil {
		return fail(err)
	}
	obj, err := client.Create(ctx, csr.Spec{Name: user, Request: text, Expiration: csr.MinExpiration})
	if err != nil {
		return fail(err)
	}
	ref := csr.RefOf(obj)
	defer func() { _ = client.Delete(context.WithoutCancel(ctx), ref) }() // the cluster forgets requests anyway
	if _, err := client.Approve(ctx, obj, csr.Decision{Message: "a check of revocation"}); err != nil {
		return fail(err)
	}
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	status, err := client.Wait(waiting, ref, func(csr.Status) {})
	if err != nil {
		return fail(fmt.Errorf("the cluster has not signed the check's certificate: %w", err))
	}
	cert, err := csr.Collect(status.Object, csr.Want{PublicKey: key.Public(), Request: text})
	if err != nil {
		return fail(err)
	}
	at, err := t.stopping.access.Verified(ctx, kubeContext)
	if err != nil {
		return fail(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fail(err)
	}
	config := cluster.Anonymous(at)
	config.CertData, config.KeyData = cert.PEM, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	c, err := newObjects(config)
	return c, revocation.EntryOf(cert.Leaf), err
}
