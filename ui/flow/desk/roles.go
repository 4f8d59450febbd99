package desk

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/assets"
	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

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

// LacksRights names the rights that a member of the help desk lacks in the cluster of a context. It is empty for
// a caller with none of them, who is no member.
func LacksRights(ctx context.Context, e *env.Env, kubeContext string) ([]string, error) {
	c, err := openObjects(ctx, cluster.Access{Env: e}, kubeContext)
	if err != nil {
		return nil, err
	}
	const certificates, system = "certificates.k8s.io", "kube-system"
	decides := access{Verb: "update", Group: clusterapi.GroupVersion.Group, Resource: "requestreviews",
		Namespace: clusterapi.Namespace}
	approves := access{Verb: "approve", Group: certificates, Resource: "signers", Name: csr.ClientSigner}
	switch byReview, err := c.may(ctx, decides); {
	case err != nil:
		return nil, err
	case byReview:
		approves = decides // the approver approves what the help desk decides
	}
	var lacks []string
	duties := []access{approves, {Verb: "list", Group: certificates, Resource: "certificatesigningrequests"},
		{Verb: "create", Resource: "secrets", Namespace: system}, {Verb: "delete", Resource: "secrets", Namespace: system}}
	for _, duty := range duties {
		ok, err := c.may(ctx, duty)
		if err != nil {
			return nil, err
		}
		if !ok {
			lacks = append(lacks, duty.String())
		}
	}
	if len(lacks) >= len(duties)-1 { // others list requests too
		return nil, nil
	}
	return lacks, nil
}
