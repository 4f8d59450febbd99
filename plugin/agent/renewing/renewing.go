package renewing

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// Limits of renewals.
const (
	// patience is how long a request waits for its approval: an approver in the cluster takes
	// seconds.
	patience = 10 * time.Minute
	// again is how long nothing is tried after a failure that was told.
	again = 24 * time.Hour
	// askAgain is how long a person who has declined is left alone, or a third of what is left of the
	// certificate's life if that is less.
	askAgain = 4 * time.Hour
	// pauseMin and pauseMax bound the doubling pause after what is temporary.
	pauseMin, pauseMax = time.Minute, time.Hour
)

// Way is an enrollment in use, and what the agent can do with its key without asking anybody.
type Way struct {
	// Key is the enrollment whose key signs, Chain the certificate that it signs in with.
	Key   enrollment.Enrollment
	Chain []*x509.Certificate
	// Client returns a client that files over the connection that the key has signed.
	Client func() (*csr.Client, error)
	// Signer returns the key for the request.
	Signer func(context.Context) (crypto.Signer, error)
	// Swap signs in with the next certificate, and puts it in the place of Chain.
	Swap func(context.Context, *csr.Certificate) error
}

// Renewer renews what is due. It is safe for concurrent use.
type Renewer struct {
	Store enrollment.Store
	// Off says that nothing is renewed by itself.
	Off bool
	// Ended is told how an attempt ended: a nil error is a new certificate in use, and
	// failed says that nothing is tried again today.
	Ended func(e enrollment.Enrollment, err error, failed bool)
	Log   *slog.Logger

	mu    sync.Mutex
	under map[string]*attempt // attempts by the name of the key's enrollment
}

// attempt is what is known of an enrollment's attempts since the agent has started.
type attempt struct {
	running bool
	after   time.Time // time before which nothing is tried
	renewed time.Time // time of the last success
	pause   time.Duration
}

// Begin tells whether the certificate is to be renewed now, and keeps others from doing so until
// done is called.
func (r *Renewer) Begin(key enrollment.Enrollment, chain []*x509.Certificate, now time.Time) (done func(), ok bool) {
	if r.Off || key.Issuer != "" {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.under[key.Name]
	if a == nil {
		a = &attempt{}
		if r.under == nil {
			r.under = map[string]*attempt{}
		}
		r.under[key.Name] = a
	}
	from := chain[0].NotBefore
	if a.renewed.After(from) { // signers backdate, and this clock may be ahead
		from = a.renewed
	}
	if a.running || now.Before(a.after) || !expiry.Renews(from, chain[0].NotAfter, now) || !r.wanted(key, now) {
		return nil, false
	}
	a.running = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		a.running = false
	}, true
}

// wanted tells whether what is on record has the agent renew. Nothing is filed unasked where it
// is not known that the cluster approves by itself.
func (r *Renewer) wanted(key enrollment.Enrollment, now time.Time) bool {
	known, err := r.Store.Renewals().Load(key)
	if err != nil {
		r.Log.Warn("renew", "enrollment", key.Name, "error", err)
		return false
	}
	return Left(known) && !(known.Failure != "" && now.Sub(known.Failed) < again && !now.Before(known.Failed))
}

// Left tells whether an enrollment with that on record is left to the agent to renew: the cluster
// approves by itself, and nobody has begun a renewal by hand.
func Left(known enrollment.Renewal) bool {
	return judge.BySelf(known.Approver) && (known.Request == nil || !known.Request.ByPerson)
}

// Until is when the next certificate of a key will end, as far as that can be told beforehand.
func (r *Renewer) Until(key enrollment.Enrollment, chain []*x509.Certificate, now time.Time) time.Time {
	life := chain[0].NotAfter.Sub(chain[0].NotBefore)
	if known, err := r.Store.Renewals().Load(key); err == nil && known.Expiration != 0 {
		life = known.Expiration
	}
	return now.Add(life)
}

// Ask signs and files the request with a key that takes a person, who is there now. goOn, which takes nobody, does
// the rest of what [Renewer.Renew] does; it is nil if there is none. [Renewer.Begin] has allowed that.
func (r *Renewer) Ask(ctx context.Context, w Way, now time.Time) (goOn func(context.Context)) {
	client, filed, err := r.filed(ctx, w, 0)
	if err == nil {
		return func(ctx context.Context) { r.settle(ctx, w, r.await(ctx, client, w, filed, 0)) }
	}
	if ctx.Err() == nil && hsm.ErrorCode(err) == "" {
		r.settle(ctx, w, err)
		return nil
	}
	r.mu.Lock() // the person declined, or was not there in time
	defer r.mu.Unlock()
	r.under[w.Key.Name].after = now.Add(min(askAgain, w.Chain[0].NotAfter.Sub(now)/3))
	return nil
}

// Renew gets the next certificate and puts it into use. [Renewer.Begin] has allowed that.
func (r *Renewer) Renew(ctx context.Context, w Way) {
	err := r.request(ctx, w, 0)
	if most := offered(err); most > 0 {
		err = r.request(ctx, w, most)
	}
	r.settle(ctx, w, err)
}

// request files a request, waits for the certificate and puts it into use. It asks for the usual
// lifetime, or for most if that is not 0.
func (r *Renewer) request(ctx context.Context, w Way, most time.Duration) error {
	client, filed, err := r.filed(ctx, w, most)
	if err == nil {
		err = r.await(ctx, client, w, filed, most)
	}
	return err
}

// offered is the lifetime for which the cluster may approve a request that asked for too long, 0 if there is none.
func offered(err error) time.Duration {
	final, ok := errors.AsType[*finalError](err)
	if !ok {
		return 0
	}
	denied, ok := errors.AsType[*csr.DeniedError](final.error)
	if !ok {
		return 0
	}
	return judge.Offered(denied.Status.Reason, denied.Status.Message)
}

// settle tells how an attempt ended, and decides when the next one may begin.
func (r *Renewer) settle(ctx context.Context, w Way, err error) {
	final, ended := errors.AsType[*finalError](err)
	switch {
	case ctx.Err() != nil: // the token was locked, or the agent ends
		return
	case errors.Is(err, enrollment.ErrBusy), errors.Is(err, errTaken), errors.Is(err, hsm.ErrPINRequired):
		r.pauses(w.Key.Name, pauseMin) // another process goes on with the renewal, or a person would have to be asked
		return
	case ended:
		r.Log.Warn("renew", "enrollment", w.Key.Name, "error", final.error)
		r.Ended(w.Key, final.error, true)
		err = r.failed(ctx, w, final)
	case err == nil:
		r.pauses(w.Key.Name, 0)
		r.Ended(w.Key, nil, false)
		return
	default:
		r.Ended(w.Key, err, false)
	}
	if err != nil {
		r.Log.Warn("renew", "enrollment", w.Key.Name, "error", err)
	}
	r.pauses(w.Key.Name, pauseMax)
}

// pauses has nothing tried for a while, which is twice as long each time, up to longest; 0 begins anew, after a
// success.
func (r *Renewer) pauses(name string, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.under[name]
	if longest == 0 {
		a.pause, a.after, a.renewed = 0, time.Time{}, time.Now()
		return
	}
	a.pause = min(max(pauseMin, 2*a.pause), longest)
	a.after = time.Now().Add(a.pause)
}

// finalError is the end of an attempt that is told, and tried again on another day. Over says that its
// request came to an end.
type finalError struct {
	error
	over bool
}

// errTaken says that another process continues the renewal, or that the key was replaced.
var errTaken = errors.New("another process continues the renewal")

// filed is the request for the next certificate, once it is in the cluster.
func (r *Renewer) filed(ctx context.Context, w Way, most time.Duration) (*csr.Client, enrollment.RenewalRequest, error) {
	client, err := w.Client()
	if err != nil {
		return nil, enrollment.RenewalRequest{}, err
	}
	filed, err := r.file(ctx, client, w, most)
	return client, filed, err
}

// await waits for the certificate that was requested, and puts it into use.
func (r *Renewer) await(ctx context.Context, client *csr.Client, w Way, filed enrollment.RenewalRequest,
	most time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, err := client.Wait(wait, csr.Ref{Name: filed.Name, UID: types.UID(filed.UID)}, nil)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() != nil && status.Lost == nil:
		return &finalError{errors.New("the request " + filed.Name + " was not approved within ten minutes"), false}
	case isEnd(err):
		return &finalError{err, true}
	default:
		return err
	}
	cert, err := csr.Collect(status.Object, csr.Want{PublicKey: w.Chain[0].PublicKey, Request: filed.PKCS10})
	if err != nil {
		return &finalError{err, true}
	}
	return r.hold(ctx, w, func(known *enrollment.Renewal) error {
		if known.Request == nil || known.Request.ByPerson || known.Request.UID != filed.UID {
			return errTaken
		}
		if err := w.Swap(ctx, cert); err != nil {
			return err
		}
		usual := known.Expiration
		if Learn(known, status); most != 0 {
			known.Expiration = usual // the token's horizon may be put off
		}
		return nil
	})
}

// isEnd tells whether a request came to an end without a certificate.
func isEnd(err error) bool {
	for _, is := range []func() bool{
		func() bool { _, ok := errors.AsType[*csr.DeniedError](err); return ok },
		func() bool { _, ok := errors.AsType[*csr.FailedError](err); return ok },
		func() bool { _, ok := errors.AsType[*csr.DeletedError](err); return ok },
	} {
		if is() {
			return true
		}
	}
	return false
}

// file files a request, or finds the one that an earlier attempt has filed.
func (r *Renewer) file(ctx context.Context, client *csr.Client, w Way, most time.Duration) (
	filed enrollment.RenewalRequest, err error) {
	err = r.hold(ctx, w, func(known *enrollment.Renewal) error {
		if !Left(*known) {
			return errTaken
		}
		if known.Request != nil && known.Request.UID != "" {
			obj, err := client.Get(ctx, known.Request.Name)
			switch {
			case errors.Is(err, csr.ErrNotFound), err == nil && string(obj.UID) != known.Request.UID,
				err == nil && csr.StateOf(obj).Err() != nil:
				known.Request = nil // the request ended on another day
			case err != nil:
				return err
			}
		}
		if known.Request == nil {
			if known.Request, err = sign(ctx, w); err != nil {
				return err
			}
			if err := r.Store.Renewals().Save(w.Key.Name, *known); err != nil {
				return err
			}
		}
		if q := known.Request; q.UID == "" {
			obj, err := client.Create(ctx, csr.Spec{Name: q.Name, Request: q.PKCS10, Expiration: cmp.Or(most, known.Expiration),
				Annotations: clusterapi.Present(w.Chain[0])})
			if csr.IsForbidden(err) {
				return &finalError{err, false}
			}
			if err != nil {
				return err
			}
			q.UID = string(obj.UID)
			r.Log.Info("the renewal of a certificate was requested", "enrollment", w.Key.Name, "request", q.Name)
		}
		filed = *known.Request
		return nil
	})
	return filed, err
}

// sign makes a request for the user and groups of the present certificate, with its key.
func sign(ctx context.Context, w Way) (*enrollment.RenewalRequest, error) {
	signer, err := w.Signer(ctx)
	if err != nil {
		return nil, err
	}
	pem, err := csr.NewRequest(signer, csr.Subject{User: w.Key.User, Groups: w.Key.Groups}, csr.RequestOptions{})
	if err != nil {
		return nil, err
	}
	return &enrollment.RenewalRequest{Name: csr.RequestName(w.Key.User, w.Key.KeyHash), PKCS10: pem,
		Made: time.Now().UTC().Truncate(time.Second)}, nil
}

// failed puts on record that an attempt came to nothing.
func (r *Renewer) failed(ctx context.Context, w Way, why *finalError) error {
	return r.hold(context.WithoutCancel(ctx), w, func(known *enrollment.Renewal) error {
		known.Failure, known.Failed = why.Error(), time.Now().UTC().Truncate(time.Second)
		if why.over && known.Request != nil && !known.Request.ByPerson {
			known.Request = nil
		}
		return nil
	})
}

// hold has f change what is on record while nobody else works on the enrollment.
func (r *Renewer) hold(ctx context.Context, w Way, f func(*enrollment.Renewal) error) error {
	release, err := r.Store.Renewals().Lock(ctx, w.Key.Name)
	if err != nil {
		return err
	}
	defer release()
	now, err := r.Store.Load(w.Key.Name)
	if err != nil {
		return err
	}
	if now.KeyHash != w.Key.KeyHash {
		return errTaken
	}
	known, err := r.Store.Renewals().Load(now)
	if err != nil {
		return err
	}
	if err := f(&known); err != nil {
		return err
	}
	return r.Store.Renewals().Save(w.Key.Name, known)
}

// Learn puts on record how a request ended that was issued: whether the cluster has approved it by
// itself, and what it asked for.
func Learn(known *enrollment.Renewal, issued csr.Status) {
	*known = enrollment.Renewal{KeyHash: known.KeyHash}
	obj := issued.Object
	if obj.Spec.SignerName == csr.ClientSigner && judge.BySelf(issued.Reason) {
		known.Approver = issued.Reason
	}
	if s := obj.Spec.ExpirationSeconds; s != nil {
		known.Expiration = time.Duration(*s) * time.Second
	}
}
