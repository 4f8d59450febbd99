package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

const rbacGroup = "rbac.authorization.k8s.io"

// object is any object of the API as JSON has it. docs/decisions/csr-api.md says why there is no generated client for
// each kind.
type object map[string]any

func (o object) text(path ...string) string {
	var at any = map[string]any(o)
	for _, p := range path {
		m, _ := at.(map[string]any)
		at = m[p]
	}
	s, _ := at.(string)
	return s
}

func (o object) kind() string      { return o.text("kind") }
func (o object) name() string      { return o.text("metadata", "name") }
func (o object) namespace() string { return o.text("metadata", "namespace") }

// plural is what the API calls objects of the kind, "" if it is unknown here.
func (o object) plural() string {
	return map[string]string{
		"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
		"Role": "roles", "RoleBinding": "rolebindings",
		"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
		"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings", "Event": "events",
		"CustomResourceDefinition": "customresourcedefinitions",
		"ConfigMap":                "configmaps",
		"HardwareToken":            "hardwaretokens",
		"EnrollmentPolicy":         "enrollmentpolicies",
		"Revocation":               "revocations",
	}[o.kind()]
}

// path is where the API serves the object, or, without a name, the collection.
func (o object) path() (string, error) {
	plural := o.plural()
	if plural == "" {
		return "", fmt.Errorf("unknown kind %q", o.kind())
	}
	p := "/apis/" + o.text("apiVersion")
	if !strings.Contains(o.text("apiVersion"), "/") {
		p = "/api/" + o.text("apiVersion")
	}
	if ns := o.namespace(); ns != "" {
		p += "/namespaces/" + ns
	}
	p += "/" + plural
	if name := o.name(); name != "" {
		p += "/" + name
	}
	return p, nil
}

// into reads the object as one of its kind.
func (o object) into(kind any) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, kind); err != nil {
		return fmt.Errorf("%s cannot be read: %w", o, err)
	}
	return nil
}

// String names the object for people.
func (o object) String() string { return strings.ToLower(o.kind()) + " " + o.name() }

// objects reads and writes objects in one cluster.
type objects struct {
	rest rest.Interface
	host string
}

func openObjects(ctx context.Context, access cluster.Access, kubeContext string) (*objects, error) {
	config, err := access.Config(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	return newObjects(config)
}

// newObjects is openObjects for another credential than a context's.
func newObjects(config *rest.Config) (*objects, error) {
	cfg := rest.CopyConfig(config)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	cfg.QPS = -1
	if cfg.WarningHandler == nil && cfg.WarningHandlerWithContext == nil {
		cfg.WarningHandler = rest.NoWarnings{}
	}
	c, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return &objects{c, config.Host}, nil
}

// do sends a request and reads the answer. op says what for.
func (c *objects) do(ctx context.Context, op string, r *rest.Request) (object, error) {
	raw, err := r.Do(ctx).Raw()
	if err != nil {
		return nil, objectError(op, c.host, apierror.Said(raw, err))
	}
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("%s: the answer is not JSON: %w", op, err)
	}
	return o, nil
}

// objectError puts into words the error err with which op failed at host, and adds what to
// do about it.
func objectError(op, host string, err error) error {
	err = apierror.Of(op, host, err)
	switch {
	case apierrors.IsForbidden(err) && !errors.Is(err, apierror.ErrWithheld) && !apierror.Admission(err):
		return hint.With(err, "a cluster admin gives the right with `kubehsm rbac print | kubectl apply -f -`, or must do it")
	case apierrors.IsConflict(err):
		return hint.With(err, "another program has changed these fields: look at them, then use --force-conflicts")
	}
	return err
}

func isNotFound(err error) bool  { return apierrors.IsNotFound(err) && !isUnserved(err) }
func isForbidden(err error) bool { return apierrors.IsForbidden(err) }

// isUnserved: the cluster does not know the kind.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) &&
		(apierror.NotServed(err) || strings.Contains(err.Error(), "could not find the requested resource"))
}

func (c *objects) get(ctx context.Context, o object) (object, error) {
	path, err := o.path()
	if err != nil {
		return nil, err
	}
	return c.do(ctx, "read "+o.String(), c.rest.Get().AbsPath(path))
}

// list goes through a collection page by page.
func (c *objects) list(ctx context.Context, o object, each func(object)) error {
	path, err := o.path()
	if err != nil {
		return err
	}
	for next := ""; ; {
		page, err := c.do(ctx, "list "+o.plural(),
			c.rest.Get().AbsPath(path).Param("limit", "500").Param("continue", next))
		if err != nil {
			return err
		}
		items, _ := page["items"].([]any)
		for _, i := range items {
			if m, ok := i.(map[string]any); ok {
				m["kind"], m["apiVersion"] = o["kind"], o["apiVersion"]
				each(m)
			}
		}
		if next = page.text("metadata", "continue"); next == "" {
			return nil
		}
	}
}

// create makes o, which has a name, in its collection.
func (c *objects) create(ctx context.Context, o object) error { return c.post(ctx, o, false) }

// tryCreate has the cluster check whether it would take o, which it does not keep.
func (c *objects) tryCreate(ctx context.Context, o object) error { return c.post(ctx, o, true) }

func (c *objects) post(ctx context.Context, o object, dryRun bool) error {
	path, err := o.path()
	if err != nil {
		return err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	r := c.rest.Post().AbsPath(strings.TrimSuffix(path, "/"+o.name())).Body(body).SetHeader("Content-Type",
		runtime.ContentTypeJSON)
	if dryRun {
		r = r.Param("dryRun", "All")
	}
	_, err = c.do(ctx, "create "+o.String(), r)
	return err
}

// replace writes o as it was read and changed; somebody else's change in
// between is a conflict.
func (c *objects) replace(ctx context.Context, o object) error { return c.put(ctx, o, false) }

func (c *objects) put(ctx context.Context, o object, dryRun bool) error {
	path, err := o.path()
	if err != nil {
		return err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	r := c.rest.Put().AbsPath(path).Body(body).SetHeader("Content-Type", runtime.ContentTypeJSON)
	if dryRun {
		r = r.Param("dryRun", "All")
	}
	_, err = c.do(ctx, "change "+o.String(), r)
	return err
}

// delete removes o if it is still the one that was read.
func (c *objects) delete(ctx context.Context, o object) error {
	path, err := o.path()
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": map[string]any{
		"uid": o.text("metadata", "uid"), "resourceVersion": o.text("metadata", "resourceVersion"),
	}})
	if err != nil {
		return err
	}
	_, err = c.do(ctx, "remove "+o.String(),
		c.rest.Delete().AbsPath(path).Body(body).SetHeader("Content-Type", runtime.ContentTypeJSON))
	return err
}

// access is a right in the terms of a SelfSubjectAccessReview.
type access struct {
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
}

func (a access) String() string {
	s := a.Verb + " on " + a.Resource
	if a.Subresource != "" {
		s += "/" + a.Subresource
	}
	if a.Name != "" {
		s += " named " + a.Name
	}
	if a.Namespace != "" {
		s += " in " + a.Namespace
	}
	return s
}

// may asks whether the caller has the right.
func (c *objects) may(ctx context.Context, a access) (bool, error) {
	body, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": a}})
	if err != nil {
		return false, err
	}
	r := c.rest.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		Body(bytes.Clone(body)).SetHeader("Content-Type", runtime.ContentTypeJSON)
	o, err := c.do(ctx, "ask what is allowed", r)
	if err != nil {
		return false, err
	}
	status, _ := o["status"].(map[string]any)
	allowed, _ := status["allowed"].(bool)
	return allowed, nil
}

// ledgerAPI is [revocation.API] over the objects of a cluster.
type ledgerAPI struct{ to *objects }

// List implements [revocation.API].
func (l ledgerAPI) List(ctx context.Context, apiVersion, kind string) (all []revocation.Object, err error) {
	err = l.to.list(ctx, object{"apiVersion": apiVersion, "kind": kind}, func(o object) { all = append(all, o) })
	if isUnserved(err) && kind != "ClusterRole" { // roles are not served where RBAC is off
		err = hint.With(err, "revocation needs Kubernetes 1.32")
	}
	return all, err
}

// Create implements [revocation.API].
func (l ledgerAPI) Create(ctx context.Context, o revocation.Object) error { return l.to.create(ctx, o) }

// Replace implements [revocation.API].
func (l ledgerAPI) Replace(ctx context.Context, o revocation.Object) error {
	return l.to.replace(ctx, o)
}
