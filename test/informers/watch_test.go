//go:build linux

package informers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// client is a client of a kubeconfig's current context, as its own process
// would be: whatever it caches is its own.
func client(t testing.TB, kubeconfig string) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must.OK(t, err)
	config.QPS = -1
	c, err := dynamic.NewForConfig(config)
	must.OK(t, err)
	return c
}

// watcher is a shared informer that keeps what it is told.
type watcher struct {
	store cache.Store

	mu     sync.Mutex
	events []string // "added NAME@VERSION"
}

// watch starts an informer, which ends with the test.
func watch(t testing.TB, c dynamic.Interface, namespace string) *watcher {
	t.Helper()
	w := &watcher{}
	objects := c.Resource(configMaps).Namespace(namespace)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: objects.Watch,
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	w.store = informer.GetStore()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { w.keep("added", o) },
		UpdateFunc: func(old, o any) {
			if version(old) != version(o) { // not what a new list only repeats
				w.keep("changed", o)
			}
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			w.keep("deleted", o)
		},
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	poll.Until(t, "the informer has its first list", informer.HasSynced)
	return w
}

func version(o any) string {
	u := o.(*unstructured.Unstructured)
	return u.GetName() + "@" + u.GetResourceVersion()
}

func (w *watcher) keep(what string, o any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := what + " " + version(o)
	if what == "deleted" { // the version is that of the deletion, or of the last that was seen
		line = what + " " + o.(*unstructured.Unstructured).GetName()
	}
	w.events = append(w.events, line)
}

// told are the events so far.
func (w *watcher) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// knows tells whether the object has been added, and everything before it told:
// the store has an object before the handlers are told of it.
func (w *watcher) knows(name string) bool {
	return slices.ContainsFunc(w.told(), func(e string) bool { return strings.HasPrefix(e, "added "+name+"@") })
}

// state is the store's content.
func (w *watcher) state() []string {
	var all []string
	for _, o := range w.store.List() {
		all = append(all, version(o))
	}
	slices.Sort(all)
	return all
}

// traffic changes objects until it is stopped. What fails because the API server
// is away is tried again.
type traffic struct {
	stop    context.CancelFunc
	stopped chan struct{}
	writes  int
}

func start(t testing.TB, c dynamic.Interface, namespace string, every time.Duration) *traffic {
	// A write that is given up could still be carried out, at any time later.
	ctx, cancel := context.WithCancel(t.Context())
	tr := &traffic{stop: cancel, stopped: make(chan struct{})}
	objects := c.Resource(configMaps).Namespace(namespace)
	go func() {
		defer close(tr.stopped)
		for i := 0; ctx.Err() == nil; i++ {
			o := &unstructured.Unstructured{}
			o.SetAPIVersion("v1")
			o.SetKind("ConfigMap")
			o.SetName(fmt.Sprintf("object-%d", i%7))
			o.SetAnnotations(map[string]string{"write": fmt.Sprint(i)})
			var err error
			if i%7 == i%11 { // now and then one goes, to come back
				err = objects.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{})
			} else if _, err = objects.Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
				_, err = objects.Create(t.Context(), o, metav1.CreateOptions{})
			}
			if err == nil {
				tr.writes++
			}
			pause := time.NewTimer(every)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
	}()
	return tr
}

// end stops the traffic and returns how many writes there were.
func (tr *traffic) end() int {
	tr.stop()
	<-tr.stopped
	return tr.writes
}
