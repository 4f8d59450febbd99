package approver

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// Informers make the informers of the cache. One keeps the object that it has where the API server lists it again
// unchanged: all are listed again when the API server comes back, and would be in memory twice.
type Informers struct {
	requests, tokens cache.Indexer // lists of many read these: a client's list is a copy of the same size
}

// New makes the informer of a kind.
func (i *Informers) New(api cache.ListerWatcher, of runtime.Object, resync time.Duration,
	by cache.Indexers) cache.SharedIndexInformer {
	var store *cache.Indexer
	switch of.(type) { // no look is by namespace: requests have none, and tokens one
	case *certificatesv1.CertificateSigningRequest:
		store, by = &i.requests, cache.Indexers{byRequester: requesters}
	case *clusterapi.HardwareToken:
		store, by = &i.tokens, cache.Indexers{}
	}
	made := informer{cache.NewSharedIndexInformer(api, of, resync, by)}
	if store != nil {
		*store = made.GetIndexer()
	}
	return made
}

type informer struct{ cache.SharedIndexInformer }

// SetTransform implements [cache.SharedIndexInformer]. An object that is kept is as f made it.
func (i informer) SetTransform(f cache.TransformFunc) error {
	return i.SharedIndexInformer.SetTransform(func(in any) (any, error) {
		if had, ok := i.has(in); ok || f == nil {
			return had, nil
		}
		return f(in)
	})
}

// has returns the object that the cache has if in is of the same version, or in.
func (i informer) has(in any) (any, bool) {
	o, ok := in.(client.Object)
	if !ok {
		return in, false
	}
	key, err := cache.MetaNamespaceKeyFunc(o)
	if err != nil {
		return in, false
	}
	kept, _, err := i.GetIndexer().GetByKey(key)
	if err != nil {
		return in, false
	}
	// Stubs have no UID. An object of the same name that was made later has another version.
	had, ok := kept.(client.Object)
	if !ok || o.GetResourceVersion() == "" || had.GetResourceVersion() != o.GetResourceVersion() {
		return in, false
	}
	created := had.GetCreationTimestamp()
	if at := o.GetCreationTimestamp(); !created.Equal(&at) { // another cluster's, or restored from a backup
		return in, false
	}
	return had, true
}
