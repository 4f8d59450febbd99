package served

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	restclient "k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// happened is what a request has made the API server do.
type happened struct {
	mu     sync.Mutex
	method string
	// authorised are the questions to the authorizer, in their order.
	authorised []authorizer.AttributesRecord
	// done is what its storage was told.
	done []deed
}

type deed struct {
	verb, resource, namespace, name string
	dryRun                          bool
	object                          runtime.Object
}

type happenedKey struct{}

func happening(ctx context.Context) *happened {
	h, _ := ctx.Value(happenedKey{}).(*happened)
	return h
}

func note(ctx context.Context, d deed) {
	if h := happening(ctx); h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.done = append(h.done, d)
	}
}

// allow is an authorizer that notes what it is asked.
func allow(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if h := happening(ctx); h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.authorised = append(h.authorised, authorizer.AttributesRecord{User: a.GetUser(), Verb: a.GetVerb(),
			Namespace: a.GetNamespace(), APIGroup: a.GetAPIGroup(), Resource: a.GetResource(),
			Subresource: a.GetSubresource(), Name: a.GetName(), ResourceRequest: a.IsResourceRequest(), Path: a.GetPath()})
	}
	return authorizer.DecisionAllow, "", nil
}

// apiServer is a generic API server with all its filters and handlers. Its storage only
// notes what it is told to do. arrived is given what each request has done.
func apiServer(t *testing.T, arrived func(*happened)) http.Handler {
	t.Helper()
	c := genericapiserver.NewConfig(legacyscheme.Codecs)
	c.ExternalAddress = "127.0.0.1:6443"
	c.LegacyAPIGroupPrefixes = sets.NewString("/api")
	c.LoopbackClientConfig = &restclient.Config{}
	c.EffectiveVersion = compatibility.NewEffectiveVersionFromString("1.37", "", "")
	c.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions,
		openapinamer.NewDefinitionNamer(legacyscheme.Scheme)) // an apply needs it
	c.SkipOpenAPIInstallation = true
	c.EnableProfiling = false
	c.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: me}}, true, nil
	})
	c.Authorization.Authorizer = authorizer.AuthorizerFunc(allow)
	s, err := c.Complete(nil).New("reading", genericapiserver.NewEmptyDelegate())
	check(t, err)
	t.Cleanup(s.Destroy)
	for group, resources := range stores() {
		info := genericapiserver.NewDefaultAPIGroupInfo(group, legacyscheme.Scheme, legacyscheme.ParameterCodec,
			legacyscheme.Codecs)
		info.VersionedResourcesStorageMap["v1"] = resources
		info.PrioritizedVersions = []schema.GroupVersion{{Group: group, Version: "v1"}}
		if group == "" {
			check(t, s.InstallLegacyAPIGroup("/api", &info))
		} else {
			check(t, s.InstallAPIGroup(&info))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := &happened{method: r.Method}
		arrived(h)
		s.Handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), happenedKey{}, h)))
	})
}

// stores are the resources by group and path.
func stores() map[string]map[string]rest.Storage {
	of := func(group, resource, kind string) named {
		return named{resource, schema.GroupVersionKind{Group: group, Version: runtime.APIVersionInternal, Kind: kind}}
	}
	in := func(group string) func(resource, kind, list string, namespaced bool) *store {
		return func(resource, kind, list string, namespaced bool) *store {
			return &store{of(group, resource, kind), list, namespaced,
				rest.NewDefaultTableConvertor(schema.GroupResource{Group: group, Resource: resource})}
		}
	}
	core, apps, rbac := in(""), in("apps"), in("rbac.authorization.k8s.io")
	pods, nodes := core("pods", "Pod", "PodList", true), core("nodes", "Node", "NodeList", false)
	services := core("services", "Service", "ServiceList", true)
	namespaces := core("namespaces", "Namespace", "NamespaceList", false)
	accounts := core("serviceaccounts", "ServiceAccount", "ServiceAccountList", true)
	deployments := apps("deployments", "Deployment", "DeploymentList", true)
	kind := func(s *store, sub, group, kind string) named { return of(group, s.resource+"/"+sub, kind) }
	own := func(s *store, sub string) part { return part{named{s.resource + "/" + sub, s.kind}} }
	review := func(group, resource, kind string) maker { return maker{of(group, resource, kind), false} }
	return map[string]map[string]rest.Storage{
		"": {
			"pods": pods, "pods/status": own(pods, "status"), "pods/ephemeralcontainers": own(pods, "ephemeralcontainers"),
			"pods/resize": own(pods, "resize"), "pods/exec": door{kind(pods, "exec", "", "PodExecOptions")},
			"pods/attach":      door{kind(pods, "attach", "", "PodAttachOptions")},
			"pods/portforward": door{kind(pods, "portforward", "", "PodPortForwardOptions")},
			"pods/proxy":       door{kind(pods, "proxy", "", "PodProxyOptions")},
			"pods/eviction":    subMaker{kind(pods, "eviction", "policy", "Eviction")},
			"pods/binding":     subMaker{kind(pods, "binding", "", "Binding")},
			"secrets":          core("secrets", "Secret", "SecretList", true),
			"configmaps":       core("configmaps", "ConfigMap", "ConfigMapList", true),
			"nodes":            nodes, "nodes/status": own(nodes, "status"),
			"nodes/proxy": door{kind(nodes, "proxy", "", "NodeProxyOptions")},
			"namespaces":  namespaces, "namespaces/status": own(namespaces, "status"), "namespaces/finalize": own(namespaces, "finalize"),
			"services": services, "services/proxy": door{kind(services, "proxy", "", "ServiceProxyOptions")},
			"serviceaccounts":       accounts,
			"serviceaccounts/token": subMaker{kind(accounts, "token", "authentication.k8s.io", "TokenRequest")},
		},
		"apps": {
			"deployments": deployments, "deployments/status": own(deployments, "status"),
			"deployments/scale": part{kind(deployments, "scale", "autoscaling", "Scale")},
		},
		"rbac.authorization.k8s.io": {
			"clusterroles":        rbac("clusterroles", "ClusterRole", "ClusterRoleList", false),
			"clusterrolebindings": rbac("clusterrolebindings", "ClusterRoleBinding", "ClusterRoleBindingList", false),
			"rolebindings":        rbac("rolebindings", "RoleBinding", "RoleBindingList", true),
		},
		"authorization.k8s.io": {
			"selfsubjectaccessreviews": review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
			"selfsubjectrulesreviews":  review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
			"subjectaccessreviews":     review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
			"localsubjectaccessreviews": maker{of("authorization.k8s.io", "localsubjectaccessreviews",
				"LocalSubjectAccessReview"), true},
		},
		"authentication.k8s.io": {
			"selfsubjectreviews": review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
			"tokenreviews":       review("authentication.k8s.io", "tokenreviews", "TokenReview"),
		},
	}
}
