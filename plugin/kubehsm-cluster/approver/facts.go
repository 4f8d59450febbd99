package approver

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// facts answers what the judge asks, from the cache.
type facts struct {
	ctx      context.Context
	cache    client.Reader
	requests cache.Indexer // of the cache: a client's list would copy thousands that one requester may have filed
}

func (r *Requests) facts(ctx context.Context) facts { return facts{ctx, r.Cache, r.Informers.requests} }

func tokenKind() client.Object { return &clusterapi.HardwareToken{} }

// tokenKeys has each token in one bucket.
func tokenKeys(o client.Object) []string {
	return []string{bucket(cmp.Or(o.(*clusterapi.HardwareToken).Status.Key, o.GetName()))}
}

// otherKeys has a token in the buckets of the keys of its further certificates, which mostly have the same one.
func otherKeys(o client.Object) (all []string) {
	s := o.(*clusterapi.HardwareToken).Status
	for _, c := range s.Others {
		if b := bucket(c.Key); c.Key != s.Key && !slices.Contains(all, b) {
			all = append(all, b)
		}
	}
	return all
}

// Token implements [judge.Cluster].
func (f facts) Token(serial string) (*clusterapi.HardwareToken, error) {
	t := &clusterapi.HardwareToken{}
	err := f.cache.Get(f.ctx, types.NamespacedName{Namespace: clusterapi.Namespace, Name: serial}, t)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return t, err
}

// TokenWithKey implements [judge.Cluster].
func (f facts) TokenWithKey(spkiHash string) (*clusterapi.HardwareToken, error) {
	for _, by := range []string{byKey, byOtherKey} {
		some, err := f.tokens(by, bucket(spkiHash))
		if err != nil {
			return nil, err
		}
		for i := range some {
			if some[i].Status.Knows(spkiHash) {
				return some[i].DeepCopy(), nil
			}
		}
	}
	return nil, nil
}

// tokens are those of a bucket of an index. They are the cache's own.
func (f facts) tokens(by, bucket string) ([]clusterapi.HardwareToken, error) {
	var list clusterapi.HardwareTokenList
	err := f.cache.List(f.ctx, &list, client.InNamespace(clusterapi.Namespace), client.MatchingFields{by: bucket},
		client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// Others implements [judge.Cluster].
func (f facts) Others(requester string, except types.UID) iter.Seq2[judge.Other, error] {
	return func(yield func(judge.Other, error) bool) {
		some, err := f.requests.ByIndex(byRequester, bucket(requester))
		if err != nil {
			yield(judge.Other{}, err)
			return
		}
		for _, o := range some {
			o, ok := o.(*certificatesv1.CertificateSigningRequest)
			if !ok || o.UID == except || o.Spec.Username != requester {
				continue
			}
			version, err := judge.Version(o)
			if !yield(judge.Other{UID: o.UID, Name: o.Name, Version: version,
				Approved: csr.StateOf(o).State != csr.Pending}, err) {
				return
			}
		}
	}
}

// UsedFor implements [judge.Cluster].
func (f facts) UsedFor(ticket string) (types.UID, error) {
	var use clusterapi.RequestReview
	err := f.cache.Get(f.ctx, types.NamespacedName{Namespace: clusterapi.Namespace, Name: clusterapi.TicketUse(ticket)}, &use)
	return use.Spec.Request, client.IgnoreNotFound(err)
}

// Revoked implements [judge.Cluster].
func (f facts) Revoked(certificate, key string) ([]string, error) {
	for _, by := range revokedKeys(revocation.Entry{Certificate: certificate, Key: key}) {
		var list admissionregistrationv1.ValidatingAdmissionPolicyList
		if err := f.cache.List(f.ctx, &list, client.MatchingFields{byRevoked: by}); err != nil {
			return nil, err
		}
		policies, err := objectsOf(list.Items)
		if err != nil {
			return nil, err
		}
		all := revocation.ListOf(policies, nil)
		var named clusterapi.RevocationList // not in a policy yet
		if err := f.cache.List(f.ctx, &named, client.MatchingFields{byRevoked: by}); err != nil {
			return nil, err
		}
		for i := range named.Items {
			all.Shards = append(all.Shards, revocation.Shard{Entries: named.Items[i].Entries()})
		}
		if why := all.Objections(certificate, key); len(why) > 0 {
			return why, nil
		}
	}
	var unread admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := f.cache.List(f.ctx, &unread, client.MatchingFields{byRevoked: unreadable}); err != nil {
		return nil, err
	}
	policies, err := objectsOf(unread.Items)
	if err != nil {
		return nil, err
	}
	for _, s := range revocation.ListOf(policies, nil).Shards {
		err = errors.Join(err, s.Err)
	}
	return nil, err
}

// revoked is the whole list of revoked certificates.
func (f facts) revoked() (revocation.List, error) {
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := f.cache.List(f.ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return revocation.List{}, err
	}
	var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
	if err := f.cache.List(f.ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
		return revocation.List{}, err
	}
	p, err := objectsOf(policies.Items)
	if err != nil {
		return revocation.List{}, err
	}
	b, err := objectsOf(bindings.Items)
	return revocation.ListOf(p, b), err
}

// objectsOf are policies or bindings as package revocation reads them.
func objectsOf[T any](items []T) (all []revocation.Object, err error) {
	for i := range items {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// unreadable is what a policy is found by whose entries cannot be read.
const unreadable = "unreadable"

// revokedBy are what a policy's entries are found by, or [unreadable].
func revokedBy(o client.Object) []string {
	policy, ok := o.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	if !ok {
		return nil
	}
	policies, err := objectsOf([]admissionregistrationv1.ValidatingAdmissionPolicy{*policy})
	if err != nil {
		return nil // a policy always is an object
	}
	list := revocation.ListOf(policies, nil)
	var all []string
	if slices.ContainsFunc(list.Shards, func(s revocation.Shard) bool { return s.Err != nil }) {
		all = append(all, unreadable)
	}
	for e := range list.All() {
		all = append(all, revokedKeys(e)...)
	}
	return all
}

// namedBy are what a Revocation's entries are found by.
func namedBy(o client.Object) (all []string) {
	if r, ok := o.(*clusterapi.Revocation); ok {
		for _, e := range r.Entries() {
			all = append(all, revokedKeys(e)...)
		}
	}
	return all
}

// revokedKeys are what an entry is found by.
func revokedKeys(e revocation.Entry) (all []string) {
	if e.Certificate != "" {
		all = append(all, "certificate/"+e.Certificate)
	}
	if e.Key != "" {
		all = append(all, "key/"+e.Key)
	}
	return all
}
