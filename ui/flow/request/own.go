package request

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Own are the requests that were filed from here.
type Own struct {
	env    *env.Env
	access cluster.Access
}

// NewOwn returns those that e has records of.
func NewOwn(e *env.Env) Own { return Own{env: e, access: cluster.Access{Env: e}} }

// Create signs a PKCS#10 on the token, as o asks, and files it. A request called name
// that an earlier call has signed and not filed is filed as it is; "" makes a name from
// user and key.
func (f Own) Create(ctx context.Context, name string, o enrolling.Options, p hsm.Prompter) (View, error) {
	if name != "" {
		if err := csr.ValidName(name); err != nil {
			return View{}, err
		}
	}
	if err := csr.ValidExpiration(o.Expiration); err != nil {
		return View{}, err
	}
	server, err := f.access.Server(ctx, o.Context)
	if err != nil {
		return View{}, err
	}
	client, err := f.access.Client(ctx, o.Context)
	if err != nil {
		return View{}, err
	}
	t, err := f.env.Drivers.Open(ctx, o.Key)
	if err != nil {
		return View{}, err
	}
	defer t.Close()
	info, err := t.Info(ctx)
	if err != nil {
		return View{}, err
	}
	if err := o.FillNames(info); err != nil {
		return View{}, err
	}
	if !o.AcceptForecast {
		points, err := client.Forecast(ctx, o.Prospect(info.Can.Attest))
		if err == nil {
			err = ForecastRefusal(points)
		}
		if err != nil {
			return View{}, err
		}
	}
	own := enrolling.Request{Name: name, Server: server, Key: o.Key}
	if err := f.sign(ctx, t, info.Can, o, &own, p); err != nil {
		return View{}, err
	}
	return f.file(ctx, client, own)
}

// sign signs the request and records it, or takes the one on record.
func (f Own) sign(ctx context.Context, t hsm.Token, able hsm.Abilities, o enrolling.Options, own *enrolling.Request,
	p hsm.Prompter) error {
	signer, err := t.Signer(ctx, o.Key, nil, ask.With(p, hsm.Purpose{Action: "sign the certificate request"}))
	if err != nil {
		return err
	}
	if own.KeyHash, err = hsm.Fingerprint(signer.Public()); err != nil {
		return err
	}
	name := cmp.Or(own.Name, csr.RequestName(o.User, own.KeyHash))
	switch old, err := enrolling.NewStore(f.env).LoadRequest(own.Server, name); {
	case err == nil && old.UID == "" && old.KeyHash == own.KeyHash:
		*own = old
		return nil
	case err == nil:
		return hinting.With(fmt.Errorf("a request %q was made here before", name),
			fmt.Sprintf("follow it with `kubehsm csr wait %s`, take it back with `kubehsm csr cancel %s`, "+
				"or choose another --name", name, name))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if _, err := Sign(ctx, t, able, signer, &o, own); err != nil { // the view says that there is no attestation
		return err
	}
	own.Created = time.Now().UTC().Truncate(time.Second)
	return enrolling.NewStore(f.env).SaveRequest(*own)
}

// file files a recorded request, or finds it filed.
func (f Own) file(ctx context.Context, client *csr.Client, own enrolling.Request) (View, error) {
	obj, err := File(ctx, client, &own, false)
	if err != nil {
		return View{}, err
	}
	if err := enrolling.NewStore(f.env).SaveRequest(own); err != nil {
		return View{}, err
	}
	v := ViewOf(obj)
	v.judge(attest.Verifier{})
	return v, nil
}

// Resume files the request on record under that name, if a crash or a
// lost connection kept it from being filed.
func (f Own) Resume(ctx context.Context, kubeContext, name string) (View, error) {
	server, err := f.access.Server(ctx, kubeContext)
	if err != nil {
		return View{}, err
	}
	own, err := enrolling.NewStore(f.env).LoadRequest(server, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = hinting.With(fmt.Errorf("no request %q was made here for this cluster", name),
			"`kubehsm csr list --mine` shows those that were")
	}
	if err != nil {
		return View{}, err
	}
	client, err := f.access.Client(ctx, kubeContext)
	if err != nil {
		return View{}, err
	}
	return f.file(ctx, client, own)
}

// The states of an own request that the cluster does not know.
const (
	StateUnfiled = "not filed"
	StateGone    = "gone"
	StateUnknown = "unknown" // the cluster does not say
)

// List are the requests filed from here with a context's cluster, with
// what has become of them; where the cluster does not say, what is on record and
// an error.
func (f Own) List(ctx context.Context, kubeContext string) ([]View, error) {
	server, err := f.access.Server(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	all, err := enrolling.NewStore(f.env).Requests(server)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	client, err := f.access.Client(ctx, kubeContext)
	var views []View
	for _, own := range all {
		var obj *certificatesv1.CertificateSigningRequest
		if err == nil || errors.Is(err, csr.ErrNotFound) { // another error would answer no more than before
			obj, err = client.Get(ctx, own.Name)
		}
		switch {
		case errors.Is(err, csr.ErrNotFound):
			views = append(views, absentView(own))
		case err != nil:
			v := absentView(own)
			if v.State = StateUnknown; own.UID != "" {
				v.Message = ""
			}
			views = append(views, v)
		case own.UID != "" && string(obj.UID) != own.UID || string(obj.Spec.Request) != string(own.Spec.Request):
			v := absentView(own)
			v.Warnings = append(v.Warnings, "another request has its name now")
			views = append(views, v)
		default:
			views = append(views, ViewOf(obj))
		}
	}
	if errors.Is(err, csr.ErrNotFound) {
		err = nil
	}
	return views, err
}

// absentView shows a request that is not in the cluster.
func absentView(o enrolling.Request) View {
	v := View{Name: o.Name, UID: o.UID, State: StateGone, Fingerprint: o.KeyHash, SignerName: o.Spec.SignerName,
		Created: o.Created,
		Message: "deleted, or cleaned up: clusters keep undecided requests for 24 hours and ended ones for 1 hour"}
	if o.UID == "" {
		v.State, v.Message = StateUnfiled, "`kubehsm csr resume "+o.Name+"` files it"
	}
	if info, err := csr.InspectRequest(o.Spec.Request); err == nil {
		v.User, v.Groups, v.Key = info.Subject.User, info.Subject.Groups, info.KeyAlgorithm
	}
	return v
}

// Cancel takes a request of one's own back: it is deleted from the
// cluster, and its record with it. One that was filed by somebody else is left
// alone, as is another that has its name now.
func (f Own) Cancel(ctx context.Context, kubeContext, name string) error {
	server, err := f.access.Server(ctx, kubeContext)
	if err != nil {
		return err
	}
	client, err := f.access.Client(ctx, kubeContext)
	if err != nil {
		return err
	}
	own, err := enrolling.NewStore(f.env).LoadRequest(server, name)
	recorded := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	forget := func() error {
		if !recorded {
			return nil
		}
		return os.Remove(enrolling.NewStore(f.env).RequestPath(server, name))
	}
	obj, err := client.Get(ctx, name)
	gone := errors.Is(err, csr.ErrNotFound) || err == nil && recorded && own.UID != "" && string(obj.UID) != own.UID
	switch {
	case gone && recorded:
		return forget()
	case err != nil:
		return err
	case !recorded:
		if err := ownByRequester(ctx, client, obj); err != nil {
			return err
		}
	}
	err = client.Delete(ctx, csr.RefOf(obj))
	var forbidden *csr.ForbiddenError
	if errors.As(err, &forbidden) {
		return hinting.With(err,
			"if it is not decided, the cluster deletes it after 24 hours; "+
				"an approver can deny it: kubectl certificate deny "+name)
	}
	if err != nil {
		return err
	}
	return forget()
}

// ownByRequester refuses a request that the caller has not filed.
func ownByRequester(ctx context.Context, client *csr.Client, obj *certificatesv1.CertificateSigningRequest) error {
	me, err := client.Rights().WhoAmI(ctx)
	if err != nil {
		return err
	}
	if obj.Spec.Username != me.User {
		return hinting.With(fmt.Errorf("request %s was filed by %q, not by you (%q)", obj.Name, obj.Spec.Username, me.User),
			"deny what should not be signed: `kubehsm csr deny "+obj.Name+"`")
	}
	return nil
}

// Wait follows a request to its end and returns the checked certificate,
// PEM, leaf first. One that was filed from here must still be the one that was
// filed. report hears of changes, a line each, raw.
func (f Own) Wait(ctx context.Context, kubeContext, name string, report func(string)) ([]byte, error) {
	server, err := f.access.Server(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	client, err := f.access.Client(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	own, err := enrolling.NewStore(f.env).LoadRequest(server, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	own.Name = name
	status, err := client.Wait(ctx, own.Ref(), func(s csr.Status) { report(StatusLine(name, s)) })
	if err != nil {
		return nil, err
	}
	cert, err := csr.Collect(status.Object, csr.Want{Request: own.Spec.Request})
	if err != nil {
		return nil, err
	}
	for _, n := range cert.Notes {
		report("note: " + n)
	}
	return cert.PEM, nil
}

// SendToAdmin is an error that only somebody else can mend: Text is what to
// send to them. It wraps the refusal.
type SendToAdmin struct {
	Err  error
	Text string
}

// Error implements error.
func (e *SendToAdmin) Error() string { return e.Err.Error() }

// Unwrap returns the refusal.
func (e *SendToAdmin) Unwrap() error { return e.Err }

// Details returns Text.
func (e *SendToAdmin) Details() string { return e.Text }

// Hint says what to do with Text.
func (e *SendToAdmin) Hint() string {
	return "send the lines below to an admin of the cluster; then run the same command again"
}

// Approving is the command that approves the request called name.
func Approving(name string) string { return "kubehsm csr approve " + name }

// StatusLine says where a request is, in a line.
func StatusLine(name string, s csr.Status) string {
	switch {
	case s.Lost != nil:
		return "connection lost, trying again: " + s.Lost.Error()
	case s.Note != "":
		return s.Note
	case s.State == csr.Pending:
		return fmt.Sprintf("waiting for somebody to approve %s: %s", name, Approving(name))
	case s.State == csr.Approved:
		return name + " is approved; waiting for the signer"
	}
	line := name + " is " + s.State.String()
	if s.Message != "" {
		line += ": " + csr.Brief(s.Message)
	}
	return line
}
