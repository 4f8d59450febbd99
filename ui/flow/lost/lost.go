// Package lost is for the owner of a token that is lost: they report it from another token of theirs, and the
// approver in the cluster revokes its certificates. The help desk's way is in package desk.
package lost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// What a report fails with besides the API server's errors; test with errors.Is.
var (
	// ErrSerial: a token was not named by its serial number.
	ErrSerial = errors.New("not the serial number of a token")
	// ErrNoApprover: nobody in the cluster acts on reports.
	ErrNoApprover = errors.New("the cluster has no approver that takes reports of lost tokens")
	// ErrInUse: the caller has signed in with the token that they report.
	ErrInUse = errors.New("you are signed in with this token")
	// ErrNotYours: the roster does not give the token to the caller.
	ErrNotYours = errors.New("the roster does not give you this token")
	// ErrPending: the report is made, and the approver has not acted yet.
	ErrPending = errors.New("the token is reported, but its certificates are not revoked yet")
)

// Patience is how long a reporter waits for the approver.
const Patience = 30 * time.Second

// pause is how often it is looked what the approver has done.
const pause = 200 * time.Millisecond

// MaxNote bounds a note, in characters.
const MaxNote = 200

// Reports reports lost tokens.
type Reports struct{ access cluster.Access }

// New returns the reports to the clusters that e leads to.
func New(e *env.Env) Reports { return Reports{cluster.Access{Env: e}} }

// Token is one that is reported lost, and what is known of it here.
type Token struct {
	// Serial is its serial number, User who reports it, Server the API server's URL.
	Serial string `json:"serial"`
	User   string `json:"user"`
	Server string `json:"server"`
	// Enrollment is the one whose key is in the token, URI the token's; "" if this computer knows none in this
	// cluster. NotAfter is when its certificate ends, zero if that is not known here.
	Enrollment string    `json:"enrollment,omitempty"`
	URI        string    `json:"uri,omitempty"`
	NotAfter   time.Time `json:"notAfter,omitzero"`
	// Elsewhere are enrollments of the token in other clusters.
	Elsewhere []string `json:"elsewhere,omitempty"`
	// Revoked is nil before the report is carried out.
	Revoked *Revoked `json:"revoked,omitempty"`

	used string // fingerprint of the certificate that the reporter has signed in with
}

// Revoked is what the approver has done.
type Revoked struct {
	// Certificates is how many are revoked. They can read until Until, which is zero if there are none.
	Certificates int       `json:"certificates"`
	Until        time.Time `json:"until,omitzero"`
}

var serialNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)

// serialOf reads a token's serial number, alone or in its URI.
func (r Reports) serialOf(token string) (string, error) {
	serial := token
	if u, err := hsm.ParseURI(token); err == nil {
		serial = u.Serial
	}
	if serialNumber.MatchString(serial) {
		return serial, nil
	}
	advice := "a roster names tokens by a number, which is printed on a YubiKey"
	if known, err := r.Known(); err == nil && len(known) > 0 {
		advice = "this computer knows " + strings.Join(known, ", ")
	}
	return "", hint.With(fmt.Errorf("%q: %w", token, ErrSerial), advice)
}

// Known lists the tokens that this computer has enrolled and a roster can name, such as "1234567 (prod-hsm)".
func (r Reports) Known() (all []string, err error) {
	mine, err := r.access.Env.Enrollments().List()
	for _, e := range mine {
		if serialNumber.MatchString(e.Key.Serial) {
			all = append(all, e.Key.Serial+" ("+e.Name+")")
		}
	}
	return all, err
}

// LookUp says what a report of a token, named by its serial number or URI, would do. It checks that the cluster
// would take the report. Errors are [ErrSerial], [ErrNoApprover], [ErrInUse] and those of the API server.
func (r Reports) LookUp(ctx context.Context, kubeContext, token string) (Token, error) {
	serial, err := r.serialOf(token)
	if err != nil {
		return Token{}, err
	}
	at, err := r.access.Verified(ctx, kubeContext)
	if err != nil {
		return Token{}, err
	}
	client, err := r.access.Client(ctx, kubeContext)
	if err != nil {
		return Token{}, err
	}
	me, err := client.Rights().WhoAmI(ctx)
	if err != nil {
		return Token{}, err
	}
	t := Token{Serial: serial, User: me.User, Server: at.Server, used: revocation.Used(me.Extra)}
	if t.used == "" {
		return t, hint.With(errors.New("the cluster does not say that you have signed in with a certificate"),
			"use the context of another token of yours, in a cluster with Kubernetes 1.32 or later; or "+t.desk())
	}
	if err := t.known(r.access.Env.Enrollments()); err != nil {
		return t, err
	}
	api, host, err := r.open(ctx, kubeContext)
	if err != nil {
		return t, err
	}
	err = api.Post().Namespace(clusterapi.Namespace).Resource("lossreports").Param("dryRun", metav1.DryRunAll).
		Body(t.report("")).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) { // the last one, which [Reports.Report] looks at
		err = nil
	}
	return t, t.refused(ctx, api, host, err)
}

// known adds what this computer knows of the token.
func (t *Token) known(store enrollment.Store) error {
	all, err := store.List()
	if err != nil {
		return err
	}
	for _, e := range all {
		switch {
		case e.Key.Serial != t.Serial:
			continue
		case e.Cluster.Server != t.Server:
			t.Elsewhere = append(t.Elsewhere, e.Name)
			continue
		}
		t.Enrollment, t.URI = e.Name, e.Key.TokenOnly().Identity().String()
		chain, err := store.Certificate(e)
		if err != nil || len(chain) == 0 {
			continue // the end of the certificate is not known
		}
		t.NotAfter = chain[0].NotAfter
		if revocation.EntryOf(chain[0]).Certificate == t.used {
			return hint.With(fmt.Errorf("token %s: %w: you would lock yourself out", t.Serial, ErrInUse),
				"insert another token of yours and run it again, or "+t.desk())
		}
	}
	return nil
}

// desk says how the help desk does the same.
func (t *Token) desk() string {
	return "call the help desk, who run `kubehsm roster remove " + t.Serial +
		" --lost` and `kubehsm helpdesk revoke --token " + t.Serial + "`"
}

func (t *Token) report(note string) *clusterapi.LossReport {
	return &clusterapi.LossReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterapi.GroupVersion.String(), Kind: "LossReport"},
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterapi.Namespace, Name: t.used},
		Spec:       clusterapi.LossSpec{Token: t.Serial, By: t.User, Note: note},
	}
}

func (r Reports) open(ctx context.Context, kubeContext string) (rest.Interface, string, error) {
	config, err := r.access.Config(ctx, kubeContext)
	if err != nil {
		return nil, "", err
	}
	api, err := cluster.ApproverAPI(config)
	return api, config.Host, err
}

// refused puts into words why the API server took no report.
func (t *Token) refused(ctx context.Context, api rest.Interface, host string, err error) error {
	if apierrors.IsForbidden(err) && !revocation.IsRefusal(err) { // also where the kind is not there
		served := &metav1.APIResourceList{}
		asked := api.Get().AbsPath("/apis/" + clusterapi.GroupVersion.String()).Do(ctx).Into(served)
		if asked == nil && !has(served, "lossreports") || apierrors.IsNotFound(asked) {
			return hint.With(ErrNoApprover, t.desk())
		}
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return hint.With(ErrNoApprover, t.desk())
	}
	return hint.With(apierror.Of("report the token "+t.Serial, host, err), t.desk())
}

func has(served *metav1.APIResourceList, resource string) bool {
	for _, r := range served.APIResources {
		if r.Name == resource {
			return true
		}
	}
	return false
}

// Report reports the token and waits until its certificates are revoked, for as long as patience. note is what
// their holder reads, at most [MaxNote] characters. A report that was made before is waited for. Errors are
// [ErrNotYours], [ErrPending] and those of the API server.
func (r Reports) Report(ctx context.Context, kubeContext string, t *Token, note string, patience time.Duration) error {
	api, host, err := r.open(ctx, kubeContext)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	next := time.NewTicker(pause)
	defer next.Stop()
	late := fmt.Errorf("%w: the approver has not acted within %s", ErrPending, span.Limit(patience))
	for made := false; ; {
		if !made {
			err := api.Post().Namespace(clusterapi.Namespace).Resource("lossreports").Body(t.report(note)).Do(ctx).Error()
			if made = err == nil; !made && !apierrors.IsAlreadyExists(err) {
				return t.refused(ctx, api, host, err)
			}
		}
		report := &clusterapi.LossReport{}
		err := api.Get().Namespace(clusterapi.Namespace).Resource("lossreports").Name(t.used).Do(within).Into(report)
		switch {
		case apierrors.IsNotFound(err) && !made, within.Err() != nil: // an earlier one is deleted
		case err != nil:
			return apierror.Of("read what became of the report", host, err)
		case report.Spec.Token != t.Serial: // one of another token's
			late = fmt.Errorf("your report of the token %s is not closed yet", report.Spec.Token)
		default:
			made = true
			done, err := t.answered(report)
			if done {
				return err
			}
			late = cmp.Or(err, late)
		}
		select {
		case <-within.Done():
			if ctx.Err() != nil { // an interruption
				return hint.With(context.Cause(ctx), "the token may be reported already; run `kubehsm roster lost "+t.Serial+
					"` again to make sure")
			}
			return hint.With(late, "run the same command again to wait longer; the report takes effect as soon as the approver "+
				"can act. If it is urgent, call the help desk")
		case <-next.C:
		}
	}
}

// answered tells whether the approver is done with a report, and what is wrong.
func (t *Token) answered(report *clusterapi.LossReport) (done bool, err error) {
	condition := meta.FindStatusCondition(report.Status.Conditions, clusterapi.InForce)
	switch {
	case condition == nil:
		return false, nil
	case condition.Status == metav1.ConditionTrue:
		t.Revoked = &Revoked{Certificates: int(report.Status.Certificates)}
		if until := report.Status.Until; until != nil {
			t.Revoked.Until = until.Time
		}
		return true, nil
	case condition.Reason == clusterapi.NotYours:
		return true, hint.With(fmt.Errorf("token %s: %w", t.Serial, ErrNotYours), "check the serial number, or "+t.desk())
	}
	return false, fmt.Errorf("%w: %s", ErrPending, condition.Message)
}
