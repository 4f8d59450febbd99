package approver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// policies is a cache that has policies, and finds them by [revokedBy].
type policies struct {
	client.Reader
	all   []admissionregistrationv1.ValidatingAdmissionPolicy
	named []clusterapi.Revocation
}

func (p policies) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	by, found := o.FieldSelector.RequiresExactMatch(byRevoked)
	if !found {
		return errors.New("all policies are asked for")
	}
	if filed, ok := into.(*clusterapi.RevocationList); ok {
		for _, r := range p.named {
			if slices.Contains(namedBy(&r), by) {
				filed.Items = append(filed.Items, r)
			}
		}
		return nil
	}
	list := into.(*admissionregistrationv1.ValidatingAdmissionPolicyList)
	for _, policy := range p.all {
		if slices.Contains(revokedBy(&policy), by) {
			list.Items = append(list.Items, policy)
		}
	}
	return nil
}

// A policy whose entries cannot be read may hold any certificate: the cache says so, unless another
// policy has the one that is asked for.
func TestUnreadablePolicy(t *testing.T) {
	lost, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	var good, bad admissionregistrationv1.ValidatingAdmissionPolicy
	shard := revocation.Shard{Name: revocation.PolicyPrefix + "1",
		Entries: []revocation.Entry{{Certificate: strings.Repeat("ef", 32), Key: lost, User: "jane", By: "hannah"}}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(shard.Policy(), &good); err != nil {
		t.Fatal(err)
	}
	good.DeepCopyInto(&bad)
	bad.Name = revocation.PolicyPrefix + "2"
	for i := range bad.Spec.Variables {
		bad.Spec.Variables[i].Expression += "."
	}
	for name, c := range map[string]struct {
		key    string
		stored []admissionregistrationv1.ValidatingAdmissionPolicy
		says   string
		unread bool
	}{
		"revoked":                {lost, []admissionregistrationv1.ValidatingAdmissionPolicy{good}, "hannah", false},
		"not revoked":            {other, []admissionregistrationv1.ValidatingAdmissionPolicy{good}, "", false},
		"revoked, one unread":    {lost, []admissionregistrationv1.ValidatingAdmissionPolicy{good, bad}, "hannah", false},
		"perhaps in the unread":  {other, []admissionregistrationv1.ValidatingAdmissionPolicy{good, bad}, "", true},
		"nothing but the unread": {lost, []admissionregistrationv1.ValidatingAdmissionPolicy{bad}, "", true},
	} {
		why, err := facts{ctx: t.Context(), cache: policies{all: c.stored}}.Revoked("", c.key)
		if said := strings.Join(why, ""); !strings.Contains(said, c.says) || (said == "") != (c.says == "") {
			t.Errorf("%s: %q", name, said)
		}
		if errors.Is(err, revocation.ErrUnreadable) != c.unread || !c.unread && err != nil ||
			c.unread && !strings.Contains(err.Error(), bad.Name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNamedByRevocation: what a Revocation names is revoked before any policy has it, by its certificate and its key.
func TestNamedByRevocation(t *testing.T) {
	certificate, key := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	r := clusterapi.Revocation{Spec: clusterapi.RevocationSpec{By: "jill", User: "jane",
		Certificates: []clusterapi.RevokedCertificate{{Fingerprint: certificate, Key: key}}}}
	f := facts{ctx: t.Context(), cache: policies{named: []clusterapi.Revocation{r}}}
	for name, c := range map[string]struct {
		certificate, key string
		says             int
	}{"renewal": {certificate, "", 1}, "another certificate": {"", key, 1}, "renewal with the key": {certificate, key, 2},
		"neither": {key, certificate, 0}} {
		why, err := f.Revoked(c.certificate, c.key)
		if said := strings.Join(why, "; "); err != nil || len(why) != c.says || c.says > 0 && !strings.Contains(said, "by jill") {
			t.Errorf("%s: %q, %v", name, why, err)
		}
	}
}
