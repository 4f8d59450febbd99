package served

import (
	"context"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// named is what every storage has.
type named struct {
	resource string
	kind     schema.GroupVersionKind
}

func (n named) New() runtime.Object { return n.make(n.kind.Kind) }

func (named) Destroy() {}

func (n named) make(kind string) runtime.Object {
	o, err := legacyscheme.Scheme.New(n.kind.GroupVersion().WithKind(kind))
	if err != nil {
		panic(err) // the table of stores is wrong
	}
	return o
}

// GroupVersionKind implements [rest.GroupVersionKindProvider]: some subresources' kinds
// are of another group.
func (n named) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return n.kind.GroupKind().WithVersion("v1")
}

func (n named) note(ctx context.Context, verb, name string, dry []string, o runtime.Object) {
	note(ctx, deed{verb, n.resource, apirequest.NamespaceValue(ctx), name, dryrun.IsDryRun(dry), o})
}

// existing is an object that is there.
func (n named) existing(ctx context.Context, name string) runtime.Object {
	o := n.New()
	if m, err := meta.Accessor(o); err == nil {
		m.SetName(name)
		m.SetNamespace(apirequest.NamespaceValue(ctx))
		m.SetUID("1")
		m.SetResourceVersion("1")
	}
	return o
}

func (n named) get(ctx context.Context, name string) (runtime.Object, error) {
	n.note(ctx, "get", name, nil, nil)
	return n.existing(ctx, name), nil
}

func (n named) update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, err := info.UpdatedObject(ctx, n.existing(ctx, name))
	if err == nil {
		n.note(ctx, "update", name, o.DryRun, obj)
	}
	return obj, false, err
}

func (n named) create(ctx context.Context, name string, obj runtime.Object,
	o *metav1.CreateOptions) (runtime.Object, error) {
	n.note(ctx, "create", name, o.DryRun, obj)
	return obj, nil
}

// store is a resource with all that one can have.
type store struct {
	named
	list       string
	namespaced bool
	rest.TableConvertor
}

var _ rest.StandardStorage = &store{}

func (s *store) NamespaceScoped() bool { return s.namespaced }

func (s *store) GetSingularName() string { return s.resource }

func (s *store) NewList() runtime.Object { return s.make(s.list) }

func (s *store) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return s.get(ctx, name)
}

func (s *store) List(ctx context.Context, _ *metainternalversion.ListOptions) (runtime.Object, error) {
	s.note(ctx, "list", "", nil, nil)
	return s.NewList(), nil
}

func (s *store) Watch(ctx context.Context, _ *metainternalversion.ListOptions) (watch.Interface, error) {
	s.note(ctx, "watch", "", nil, nil)
	return watch.NewEmptyWatch(), nil
}

func (s *store) Create(ctx context.Context, obj runtime.Object, _ rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	return s.create(ctx, "", obj, o)
}

func (s *store) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	_ rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.update(ctx, name, info, o)
}

func (s *store) Delete(ctx context.Context, name string, _ rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	s.note(ctx, "delete", name, o.DryRun, nil)
	return s.existing(ctx, name), true, nil
}

func (s *store) DeleteCollection(ctx context.Context, _ rest.ValidateObjectFunc, o *metav1.DeleteOptions,
	_ *metainternalversion.ListOptions) (runtime.Object, error) {
	s.note(ctx, "deletecollection", "", o.DryRun, nil)
	return s.NewList(), nil
}

// part is a subresource that is read and changed, such as status.
type part struct{ named }

var _ rest.Patcher = part{}

func (p part) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return p.get(ctx, name)
}

func (p part) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	_ rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return p.update(ctx, name, info, o)
}

// subMaker is a subresource that is only created, such as a token.
type subMaker struct{ named }

var _ rest.NamedCreater = subMaker{}

func (s subMaker) Create(ctx context.Context, name string, obj runtime.Object, _ rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	return s.create(ctx, name, obj, o)
}

// maker is a resource that is only created: a review.
type maker struct {
	named
	namespaced bool
}

var _ rest.Creater = maker{}

func (m maker) NamespaceScoped() bool { return m.namespaced }

func (m maker) GetSingularName() string { return m.resource }

func (m maker) Create(ctx context.Context, obj runtime.Object, _ rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	return m.create(ctx, "", obj, o)
}

// door is a subresource that connects. The kind is that of its options.
type door struct{ named }

var _ rest.Connecter = door{}

func (d door) New() runtime.Object {
	return named{kind: schema.GroupVersionKind{Version: runtime.APIVersionInternal}}.make("Pod")
}

func (d door) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
}

func (d door) NewConnectOptions() (runtime.Object, bool, string) {
	return d.make(d.kind.Kind), strings.HasSuffix(d.kind.Kind, "ProxyOptions"), "path"
}

func (d door) ConnectMethods() []string {
	return []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
}

func (d door) Connect(ctx context.Context, id string, _ runtime.Object, _ rest.Responder) (http.Handler, error) {
	d.note(ctx, "connect", id, nil, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "connected") }), nil
}
