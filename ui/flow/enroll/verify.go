package enroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// verify signs in as kubectl will, before the kubeconfig has kubectl do so.
func (r *attempt) verify(ctx context.Context) (outcome, error) {
	out, err := r.signIn(ctx)
	switch {
	case errors.Is(err, message.ErrRejected), errors.Is(err, apierror.ErrUnauthorized):
		err = r.rejected(ctx, err)
	case err != nil:
		err = notSwitched(ctx, r.env, r.record, err, "continues from here")
	}
	return out, err
}

// rejected records that the certificate does not sign in: the next run asks for
// another one.
func (r *attempt) rejected(ctx context.Context, err error) error {
	r.record.Rejected = true
	err = hinting.With(errors.Join(err, enrolling.NewStore(r.env).Save(r.record)),
		"ask whoever runs the cluster whether its API server accepts that issuer (--client-ca-file)")
	then := "then asks for another certificate"
	if r.record.Options.Adopt {
		then = "tries again"
	}
	return notSwitched(ctx, r.env, r.record, err, then)
}

// notSwitched adds to the reason why an enrollment does not sign in which context
// kubectl uses meanwhile, and how to go on.
func notSwitched(ctx context.Context, e *env.Env, j *enrolling.Progress, err error, then string) error {
	hint := hinting.Of(err)
	if hint != "" {
		hint += "; "
	}
	hint += "the kubeconfig was not changed"
	if current, getErr := e.Rules().Get(context.WithoutCancel(ctx), ""); getErr == nil {
		hint += fmt.Sprintf(", and its current context is still %q", current.Name)
	}
	next := fmt.Sprintf("`%s` %s", j.Options.Resume(), then)
	if other := j.OtherFiler(); other != "" && j.Rejected {
		next = other
	}
	return hinting.With(err, hint+"; "+next)
}

// signIn goes through the agent and its bridge, and asks the API server who we
// are and whether we may do anything.
func (r *attempt) signIn(ctx context.Context) (outcome, error) {
	name := r.record.Options.Name
	// The token is let go first: the agent may need it to itself.
	r.close()
	client, err := (cluster.Access{Env: r.env}).ThroughBridge(ctx, name, r.env.Prompter)
	if err != nil {
		return outcome{}, err
	}
	me, err := client.Rights().WhoAmI(ctx)
	if errors.Is(err, csr.ErrNotServed) { // before Kubernetes 1.28
		me, err = csr.Identity{User: r.record.Options.User, Groups: r.record.Options.Groups}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	r.result = resultOf(r.record, r.env.Kubeconfig, me)
	has, complete, err := client.Rights().HasAny(ctx, "default")
	if err != nil {
		return outcome{}, err
	}
	if r.result.Rights = has; !has {
		r.result.Ask = askForRights(me, complete)
	}
	return outcome{message: "authenticated as " + me.User}, nil
}

// resultOf is what came of an enrollment that signs in as me; kubeconfig is the
// file that was named for it, "" if none was.
func resultOf(j *enrolling.Progress, kubeconfig string, me csr.Identity) enrolling.Result {
	res := enrolling.Result{
		Name: j.Options.Name, Context: cmp.Or(j.Options.SpareOf, j.Options.Name), Key: j.Request.Key,
		Fingerprint: j.Request.KeyHash, Request: j.Request.Name, User: me.User, Groups: me.Groups,
	}
	if cert, err := csr.ParseCertificate(j.Certificate); err == nil {
		res.NotAfter = cert.Leaf.NotAfter
	}
	kubectl := "kubectl --context " + res.Context
	if kubeconfig != "" {
		kubectl += " --kubeconfig " + shell.Quote(kubeconfig)
	}
	res.Next = []string{kubectl + " auth whoami", kubectl + " get namespaces", "kubehsm agent status"}
	return res
}

// askForRights is the line to send to an admin.
func askForRights(me csr.Identity, complete bool) string {
	line := fmt.Sprintf("kubectl create clusterrolebinding %s --clusterrole=view --user=%s",
		shell.Quote(bindingName(me.User)), shell.Quote(me.User))
	if !complete {
		line += "  # the cluster could not list all rules: there may be rights already"
	}
	return line
}

// bindingName makes an RBAC object name, a path segment, from a user's.
func bindingName(user string) string {
	return strings.TrimPrefix(enrolling.Slug(user)+"-view", "-")
}
