package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/assets"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// RBACState is how an object in a cluster compares with what kubehsm carries.
type RBACState string

// The states.
const (
	RBACSame      RBACState = "as it should be"
	RBACMissing   RBACState = "missing"
	RBACDiffers   RBACState = "differs"
	RBACForbidden RBACState = "may not be read"
	RBACUnserved  RBACState = "not served" // the cluster does not know the kind
	RBACApplied   RBACState = "applied"
)

// RBACObject is one role, binding or policy.
type RBACObject struct {
	Set       string    `json:"set"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	State     RBACState `json:"state,omitempty"`
	// Says is what the object tells everybody, in a sentence; "" if it gives rights alone.
	Says string `json:"says,omitempty"`

	text object // text to apply; nil if the cluster's own stays
}

// RBACSets are the names of the sets of roles.
func RBACSets() []string {
	var names []string
	for _, r := range assets.RBAC() {
		names = append(names, r.Name)
	}
	return names
}

// rbacRoles are the sets named, all of them if none is.
func rbacRoles(sets []string) ([]assets.Roles, error) {
	for _, s := range sets {
		if !slices.Contains(RBACSets(), s) {
			return nil, hint.With(fmt.Errorf("no roles are called %q", s), "there are "+strings.Join(RBACSets(), ", "))
		}
	}
	return slices.DeleteFunc(assets.RBAC(), func(r assets.Roles) bool {
		return len(sets) > 0 && !slices.Contains(sets, r.Name)
	}), nil
}

// RBACManifest is the roles and policies of the sets named, in YAML.
func RBACManifest(sets ...string) (string, error) {
	roles, err := rbacRoles(sets)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, r := range roles {
		texts = append(texts, r.Manifest)
	}
	return strings.Join(texts, "---\n"), nil
}

// rbacObjects parses the sets named.
func rbacObjects(sets []string) ([]RBACObject, error) {
	roles, err := rbacRoles(sets)
	if err != nil {
		return nil, err
	}
	var all []RBACObject
	for _, r := range roles {
		for doc := range strings.SplitSeq(r.Manifest, "\n---\n") {
			var o object
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				return nil, fmt.Errorf("roles for %s: %w", r.Name, err)
			}
			all = append(all, RBACObject{Set: r.Name, Kind: o.kind(), Namespace: o.namespace(), Name: o.name(), text: o})
		}
	}
	return all, nil
}

// Roles compares the roles and policies of clusters with those that kubehsm carries.
type Roles struct {
	env       *env.Env
	access    cluster.Access
	publishes bool // publishes cluster-info, see Publishing
}

// NewRoles returns those of the clusters that e leads to.
func NewRoles(e *env.Env) Roles { return Roles{env: e, access: cluster.Access{Env: e}} }

// Check compares what a cluster has with the sets named.
func (s Roles) Check(ctx context.Context, kubeContext string, sets []string) ([]RBACObject, error) {
	return s.each(ctx, kubeContext, sets, func(c *objects, o RBACObject) (RBACState, error) {
		live, err := c.get(ctx, o.text)
		switch {
		case isNotFound(err):
			return RBACMissing, nil
		case isUnserved(err):
			return RBACUnserved, nil
		case isForbidden(err):
			return RBACForbidden, nil
		case err != nil:
			return "", err
		case !contains(map[string]any(live), map[string]any(o.text)):
			return RBACDiffers, nil
		}
		return RBACSame, nil
	})
}

// Apply makes a cluster have the sets named, by server-side apply. Who has
// changed them by other means since is told of, unless force is set.
func (s Roles) Apply(ctx context.Context, kubeContext string, sets []string, dryRun, force bool) ([]RBACObject, error) {
	return s.each(ctx, kubeContext, sets, func(c *objects, o RBACObject) (RBACState, error) {
		err := c.apply(ctx, o.text, dryRun, force)
		switch {
		case isUnserved(err):
			return RBACUnserved, nil
		case err != nil:
			return "", err
		}
		return RBACApplied, nil
	})
}

func (s Roles) each(ctx context.Context, kubeContext string, sets []string,
	do func(*objects, RBACObject) (RBACState, error)) ([]RBACObject, error) {
	all, err := rbacObjects(sets)
	if err != nil {
		return nil, err
	}
	c, err := openObjects(ctx, s.access, kubeContext)
	if err != nil {
		return nil, err
	}
	decides, err := c.approverDecides(ctx)
	if err != nil {
		return nil, err
	}
	if s.publishes {
		info, err := s.clusterInfo(ctx, kubeContext, c)
		if err != nil {
			return nil, err
		}
		all = append(all, info...)
	}
	for i := range all {
		if all[i].text == nil {
			continue
		}
		if decides && all[i].Kind == "ClusterRole" && all[i].Name == deskRole {
			all[i].text["rules"] = all[i].text["rules"].([]any)[:2] // to read requests and revocations
		}
		if all[i].State, err = do(c, all[i]); err != nil {
			return all[:i], err
		}
	}
	return all, nil
}

// deskRole is the cluster role of the help desk.
const deskRole = "kubehsm:helpdesk"

// approverDecides tells whether the approver is installed: the help desk then decides
// on reviews, and approves nothing itself.
func (c *objects) approverDecides(ctx context.Context) (bool, error) {
	_, err := c.get(ctx, object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "requestreviews." + clusterapi.GroupVersion.Group}})
	if isNotFound(err) || isUnserved(err) || isForbidden(err) {
		return false, nil // a user who may not read definitions may not write roles either
	}
	return err == nil, err
}

// RBACRight is something that kubehsm does in a cluster, and whether the caller may.
type RBACRight struct {
	// Duty is it in words.
	Duty string `json:"duty"`
	// Allowed says whether the caller may; Needs is the right it takes.
	Allowed bool   `json:"allowed"`
	Needs   string `json:"needs"`
}

// Rights says which duties the caller of a context may perform.
func (s Roles) Rights(ctx context.Context, kubeContext string) ([]RBACRight, error) {
	c, err := openObjects(ctx, s.access, kubeContext)
	if err != nil {
		return nil, err
	}
	const certificates = "certificates.k8s.io"
	var all []RBACRight
	for _, d := range []struct {
		duty string
		need access
	}{
		{"file requests", access{Verb: "create", Group: certificates, Resource: "certificatesigningrequests"}},
		{"list requests", access{Verb: "list", Group: certificates, Resource: "certificatesigningrequests"}},
		{"decide on requests", access{Verb: "update", Group: certificates, Resource: "certificatesigningrequests",
			Subresource: "approval"}},
		{"approve client certificates", access{Verb: "approve", Group: certificates, Resource: "signers",
			Name: "kubernetes.io/kube-apiserver-client"}},
		{"make tickets", access{Verb: "create", Resource: "secrets", Namespace: "kube-system"}},
		{"end tickets", access{Verb: "delete", Resource: "secrets", Namespace: "kube-system"}},
		{"read other desks' tickets", access{Verb: "get", Resource: "secrets", Namespace: "kube-system"}},
		{"leave events on requests", access{Verb: "create", Resource: "events", Namespace: "default"}},
		{"revoke certificates, and lift that", access{Verb: "create", Group: "admissionregistration.k8s.io",
			Resource: "validatingadmissionpolicies"}},
		{"have the approver revoke certificates", access{Verb: "create", Group: clusterapi.GroupVersion.Group,
			Resource: "revocations", Namespace: clusterapi.Namespace}},
		{"list bindings", access{Verb: "list", Group: rbacGroup, Resource: "clusterrolebindings"}},
		{"remove bindings", access{Verb: "update", Group: rbacGroup, Resource: "clusterrolebindings"}},
	} {
		ok, err := c.may(ctx, d.need)
		if err != nil {
			return nil, err
		}
		all = append(all, RBACRight{Duty: d.duty, Allowed: ok, Needs: d.need.String()})
	}
	return all, nil
}

// Lacks says, in sentences, what the approver of a cluster may not do though it should, by its Events of the last
// 35 minutes; none where no approver runs.
func (s Roles) Lacks(ctx context.Context, kubeContext string, now time.Time) (all []string, err error) {
	c, err := openObjects(ctx, s.access, kubeContext)
	if err != nil {
		return nil, err
	}
	err = c.list(ctx, object{"apiVersion": "events.k8s.io/v1", "kind": "Event",
		"metadata": map[string]any{"namespace": clusterapi.Namespace}}, func(o object) {
		last := o.time("series", "lastObservedTime")
		if last == nil {
			last = o.time("eventTime")
		}
		if note := o.text("note"); o.text("reason") == clusterapi.RightsMissing && last != nil &&
			now.Sub(*last) < lacksFor && !slices.Contains(all, note) {
			all = append(all, note)
		}
	})
	if isForbidden(err) || isNotFound(err) || isUnserved(err) {
		return nil, nil // nothing is known
	}
	slices.Sort(all)
	return all, err
}

// lacksFor is how long after an Event a right counts as missing: client-go writes every half hour that an Event
// goes on.
const lacksFor = 35 * time.Minute

// contains reports whether live has everything that want says: fields that the
// API server has added are passed over, lists must be the same.
func contains(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		for k, v := range want {
			ok = ok && contains(l[k], v)
		}
		return ok
	case []any:
		l, ok := live.([]any)
		ok = ok && len(l) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = contains(l[i], want[i])
		}
		return ok
	}
	a, err := json.Marshal(live)
	b, err2 := json.Marshal(want)
	return err == nil && err2 == nil && string(a) == string(b)
}

// RBACUnenforced is the error for policies that a cluster cannot enforce: without
// them the roles allow more than they should.
func RBACUnenforced(all []RBACObject) error {
	for _, o := range all {
		if o.State == RBACUnserved {
			return hint.With(
				errors.New("this cluster has no ValidatingAdmissionPolicies: what they forbid stays possible"),
				"they need Kubernetes 1.30; do not bind the roles of help desk and break-glass before")
		}
	}
	return nil
}
