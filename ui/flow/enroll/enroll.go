package enroll

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Enroller takes keys from nothing to working kubeconfig contexts.
type Enroller struct{ env *env.Env }

// NewEnroller returns the one that works with e.
func NewEnroller(e *env.Env) Enroller { return Enroller{env: e} }

// Enroll takes a key from nothing to a working kubeconfig context: see [enrolling.Steps].
// It resumes what an earlier call of the same name began. p is asked for PINs,
// report (which may be nil) hears of every step.
//
// Errors: those of the token (package hsm) and of the cluster (package csr),
// [*request.SendToAdmin] where somebody else must act, [*enrolling.ConflictError] where an
// enrollment of that name was begun with other options.
func (n Enroller) Enroll(ctx context.Context, o enrolling.Options, p hsm.Prompter,
	report func(enrolling.Event)) (enrolling.Result, error) {
	o, err := n.Complete(ctx, o)
	if err != nil {
		return enrolling.Result{}, err
	}
	n.env = n.env.On(o.Cluster)
	release, err := n.env.Lock(ctx, o.Name)
	if err != nil {
		return enrolling.Result{}, err
	}
	defer release()
	j, err := n.open(ctx, o)
	if err != nil {
		return enrolling.Result{}, err
	}
	r := newAttempt(n.env, j, o, p, report)
	defer r.close()
	if err = r.run(ctx, j.Options.Steps()); err == nil {
		secrets{r}.replacePUK(ctx)
	}
	return r.result, err
}

// attempt is one run of an enrollment or of a renewal, or a look at what one would do.
type attempt struct {
	env    *env.Env // environment whose prompter asks the person of this run
	record *enrolling.Progress
	given  enrolling.Options // options of this run, with the terms of a request that is still to be made
	report func(enrolling.Event)
	at     enrolling.Step // the step that runs

	filing *csr.Client // signed in beforehand to file the request; mostly nil
	token  hsm.Token
	info   hsm.TokenInfo
	public crypto.PublicKey
	notes  []string
	result enrolling.Result
	roots  *x509.CertPool // the authorities of client certificates, where the cluster shows them
}

// newAttempt goes on from j with what is given now. It asks p for PINs, or nobody if p is
// nil; report hears of every step, and may be nil.
func newAttempt(e *env.Env, j *enrolling.Progress, given enrolling.Options, p hsm.Prompter,
	report func(enrolling.Event)) *attempt {
	own := *e
	own.Prompter = p
	if report == nil {
		report = func(enrolling.Event) {}
	}
	return &attempt{env: &own, record: j, given: given, report: report}
}

func (r *attempt) close() {
	if r.token != nil {
		r.token.Close()
		r.token = nil
	}
}

// outcome is what a step tells when it went well.
type outcome struct {
	message string
	reused  bool
}

// run takes the steps, until one fails: the result is whole then only if none did.
func (r *attempt) run(ctx context.Context, steps []enrolling.Step) error {
	for _, s := range steps {
		if err := r.step(ctx, s); err != nil {
			r.result = enrolling.Result{}
			return err
		}
	}
	return nil
}

// step takes one step, saves the progress and reports.
func (r *attempt) step(ctx context.Context, s enrolling.Step) error {
	r.at = s
	r.report(enrolling.Event{Step: s, State: enrolling.StepRunning})
	do := map[enrolling.Step]func(context.Context) (outcome, error){
		enrolling.StepDiscover: r.discover, enrolling.StepToken: r.findToken,
		enrolling.StepKey: r.keyForRequest, enrolling.StepRequest: r.fileRequest,
		enrolling.StepApproval: r.awaitApproval, enrolling.StepCertificate: r.storeCertificate,
		enrolling.StepVerify: r.verify, enrolling.StepKubeconfig: r.writeKubeconfig,
	}[s]
	out, err := do(ctx)
	if err == nil {
		if r.record.Mark(s); !r.record.Repeatable() {
			err = enrolling.NewStore(r.env).Save(r.record)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.Title(), resumable(r.record, err))
		r.report(enrolling.Event{Step: s, State: enrolling.StepFailed, Err: err})
		return err
	}
	state := enrolling.StepDone
	if out.reused {
		state = enrolling.StepReused
	}
	r.report(enrolling.Event{Step: s, State: state, Message: out.message})
	return nil
}

// resumable says how to go on where a person stopped, or after a full disk: what was done is
// not lost.
func resumable(j *enrolling.Progress, err error) error {
	switch {
	case hint.Of(err) == "" && !j.Repeatable() && (errors.Is(err, hsm.ErrCancelled) || interrupted(err)):
		return waitHint(j, err)
	case !errors.Is(err, syscall.ENOSPC):
		return err
	}
	return hint.Withf(err, "make room on the disk; then `%s` continues from here", j.Options.Resume())
}

// progress reports a message of a running step.
func (r *attempt) progress(s enrolling.Step, format string, args ...any) {
	r.report(enrolling.Event{Step: s, State: enrolling.StepRunning, Message: fmt.Sprintf(format, args...)})
}

// open returns the record that o continues, or a new one, saved; but one
// that replaces another (Restart) is saved only when its first step is done.
func (n Enroller) open(ctx context.Context, o enrolling.Options) (*enrolling.Progress, error) {
	j, err := n.recordFor(ctx, o)
	if err != nil || o.Restart {
		return j, err
	}
	return j, enrolling.NewStore(n.env).Save(j)
}

// recordFor is [Enroller.open] without writing.
func (n Enroller) recordFor(ctx context.Context, o enrolling.Options) (*enrolling.Progress, error) {
	j, err := enrolling.NewStore(n.env).Load(o.Name)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && o.Restart) {
		j = &enrolling.Progress{Options: o}
		if o.Join != nil { // the first step of a join finds the cluster
			return j, nil
		}
		return j, n.readCluster(ctx, j)
	}
	if err != nil {
		return nil, err
	}
	if err := j.Continue(o); err != nil {
		return nil, err
	}
	// Nothing was asked of a cluster yet, and the context may name another one by now.
	if j.Request.KeyHash == "" && o.Join == nil && j.Options.Renewal == nil {
		return j, n.readCluster(ctx, j)
	}
	return j, nil
}

// readCluster reads the API server of the context of j into j. A spare's is that of its enrollment.
func (n Enroller) readCluster(ctx context.Context, j *enrolling.Progress) error {
	if of := j.Options.SpareOf; of != "" {
		en, err := n.env.Enrollments().Load(of)
		j.Cluster, j.Namespace = en.Cluster, en.Namespace
		return err
	}
	at, err := (cluster.Access{Env: n.env}).Endpoint(ctx, j.Options.Context)
	if err != nil {
		return err
	}
	j.Namespace = at.Namespace
	if at.Enrollment == "" || at.Enrollment != j.Options.Name { // the cluster was accepted when it was enrolled
		if err := at.Accepts(j.Options.AcceptUnverified); err != nil {
			return err
		}
	}
	j.Cluster = at.Cluster
	return nil
}

// Forget drops the record of what was begun under name and is not finished. An enrollment whose
// renewal it is stays as it is; so do keys on the token and requests in the cluster.
func (n Enroller) Forget(ctx context.Context, name string) error {
	release, err := n.env.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	store := enrolling.NewStore(n.env)
	j, err := store.Load(name)
	if err != nil {
		return err
	}
	if j.Finished() {
		return hint.Withf(fmt.Errorf("the enrollment %q is finished", name), "`kubehsm unenroll %s` removes it", name)
	}
	en, err := n.env.Enrollments().Load(name)
	if j.Options.Renewal == nil || errors.Is(err, enrollment.ErrUnknown) {
		return os.Remove(store.Path(name))
	}
	if err != nil {
		return err
	}
	chain, err := n.env.Enrollments().Certificate(en)
	if err != nil {
		return err
	}
	if j.Request.KeyHash == en.KeyHash {
		if err := renewals(n).change(j, func(known *enrollment.Renewal) { known.Request = nil }); err != nil {
			return err
		}
	}
	j.Options.Renewal, j.Options.Generate.Slot = nil, en.Key.Slot
	*j = enrolling.Progress{Options: j.Options, Cluster: en.Cluster, Namespace: en.Namespace, Done: j.Options.Steps(),
		Request: enrolling.Request{Key: en.Key, KeyHash: en.KeyHash}, Certificate: enrollment.EncodeChain(chain)}
	return store.Save(j)
}

func (r *attempt) findToken(ctx context.Context) (outcome, error) {
	if err := r.openToken(ctx); err != nil {
		return outcome{}, err
	}
	if err := r.record.Options.Join.RefuseSerial(r.info); err != nil {
		return outcome{}, err
	}
	if err := (secrets{r}).mend(ctx); err != nil {
		return outcome{}, err
	}
	preferTouch(r.record, r.given.Guided, r.info)
	if err := keyRefusal(r.record, r.info); err != nil {
		return outcome{}, err
	}
	r.record.Options.Token = r.info.URI()
	return outcome{message: r.info.Name(), reused: r.record.Did(enrolling.StepToken)}, nil
}

func (r *attempt) openToken(ctx context.Context) error {
	if r.token != nil {
		return nil
	}
	t, err := r.env.Drivers.Open(ctx, r.record.Options.Token)
	if err != nil {
		return err
	}
	r.token = t
	r.info, err = t.Info(ctx)
	return err
}

// haveCertificate returns the chain on record, or nil if there is none that is
// still valid; one that expired or did not sign in is forgotten, so that a new
// request is filed.
func (r *attempt) haveCertificate() (*csr.Certificate, error) {
	if len(r.record.Certificate) == 0 {
		return nil, nil
	}
	c, err := csr.ParseCertificate(r.record.Certificate)
	if err != nil {
		return nil, fmt.Errorf("the certificate on record: %w", err)
	}
	switch {
	case time.Now().After(c.Leaf.NotAfter):
		r.note("the certificate on record expired on %s; a new one is requested", expiry.Day(c.Leaf.NotAfter))
	case r.record.Rejected && !r.record.Options.AcceptForecast:
		r.note("the API server did not accept the certificate on record, issued by %q; a new one was requested",
			c.Leaf.Issuer.String())
	default:
		return c, nil
	}
	r.record.Request.Forget()
	r.record.Certificate, r.record.Rejected = nil, false
	r.record.Unmark(enrolling.StepRequest)
	return nil, enrolling.NewStore(r.env).Save(r.record)
}

func (r *attempt) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}
