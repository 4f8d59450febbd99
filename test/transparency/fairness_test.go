//go:build linux

package transparency

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/test/poll"
)

const (
	// flooding is how many requests of each way are there at once: more than its queue holds.
	flooding = 200
	// queued are as many of them as wait in the queue: more than one connection carries, which is 100.
	queued = 120
	// patientQueues has a request wait in a queue for a minute: a quarter of this time, and no longer.
	patientQueues = "--request-timeout=4m"
)

// flood has the API server queue what creates ConfigMaps in namespaces FLOOD, a few at a time.
// Each is held by a webhook.
const flood = `
{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {name: FLOOD},
 spec: {type: Limited, limited: {nominalConcurrencyShares: 1, lendablePercent: 0, borrowingLimitPercent: 0,
  limitResponse: {type: Queue, queuing: {queues: 1, handSize: 1, queueLengthLimit: %[1]d}}}}}
---
{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: FLOOD},
 spec: {priorityLevelConfiguration: {name: FLOOD}, matchingPrecedence: 100, rules: [{
  subjects: [{kind: Group, group: {name: transparency}}],
  resourceRules: [{apiGroups: [""], resources: [configmaps], verbs: [create], namespaces: [FLOOD]}]}]}}
`

const holdingWebhook = `
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: flood},
 webhooks: [{name: flood.kubehsm.example, admissionReviewVersions: [v1], sideEffects: None, timeoutSeconds: 30,
  failurePolicy: Ignore, clientConfig: {url: "%[1]s", caBundle: %[2]s}, objectSelector: {matchLabels: {flood: "yes"}},
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}]}
`

// holding is a webhook that lets requests pass when it is released. The API server does so after 30 seconds.
type holding struct{ released chan struct{} }

func (h holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct{ Request struct{ UID string } }
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-h.released:
	case <-r.Context().Done():
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`,
		review.Request.UID)
}

// turnedAway counts the answers of an API server that has no place for a request, as
// it words them.
type turnedAway struct {
	next http.RoundTripper
	n    *atomic.Int32
}

func (t turnedAway) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "" &&
		resp.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") != "" {
		t.n.Add(1)
	}
	return resp, err
}

// flood sends the requests of one way at once, to a namespace of their own.
func (s *stage) flood(all *sync.WaitGroup, namespace string, w way, away *atomic.Int32) {
	s.Admin("create", "namespace", namespace)
	s.Must(s.Cluster.Apply(s.T.Context(), strings.ReplaceAll(fmt.Sprintf(flood, queued), "FLOOD", namespace)))
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	s.Must(err)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return turnedAway{next, away} })
	client, err := dynamic.NewForConfig(config)
	s.Must(err)
	objects := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	for i := range flooding {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": fmt.Sprintf("flood-%d", i), "labels": map[string]any{"flood": "yes"}}}}
		all.Go(func() {
			_, err := objects.Create(s.T.Context(), object, metav1.CreateOptions{})
			for apierrors.IsTooManyRequests(err) { // client-go gives up after ten times
				_, err = objects.Create(s.T.Context(), object, metav1.CreateOptions{})
			}
			if err != nil {
				s.T.Errorf("%s: %v", w.name, err)
			}
		})
	}
}

// waiting is how many requests the API server has in the queues of a flood.
var waiting = regexp.MustCompile(
	`(?m)^apiserver_flowcontrol_current_inqueue_requests\{.*priority_level="way-flood-(?:direct|bridge)".*\} (\d+)$`)

// fairness: while the API server queues hundreds of a program's requests, and turns some away,
// other commands go on, and in the end each request has its answer. None costs a signature.
func (s *stage) fairness() {
	h := holding{make(chan struct{})}
	webhook := httptest.NewTLSServer(h)
	defer webhook.Close()
	var all sync.WaitGroup
	release := sync.OnceFunc(func() { close(h.released) })
	defer all.Wait()
	defer release()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})
	s.Must(s.Cluster.Apply(s.T.Context(), fmt.Sprintf(holdingWebhook, webhook.URL, base64.StdEncoding.EncodeToString(ca))))
	before, err := s.Status(s.T.Context())
	s.Must(err)

	var away [2]atomic.Int32
	for i, w := range s.ways() {
		s.flood(&all, "way-flood-"+w.name, w, &away[i])
	}
	poll.Until(s.T, "the requests of both ways are queued", func() bool {
		metrics := s.Admin("get", "--raw", "/metrics")
		full := 0
		for _, m := range waiting.FindAllStringSubmatch(metrics, -1) {
			if n, err := strconv.Atoi(m[1]); err == nil && n >= queued {
				full++
			}
		}
		return full == 2 && away[0].Load() > 0 && away[1].Load() > 0
	})
	const soon = "--request-timeout=20s" // who has to wait for the others waits for longer
	s.wants(s.alike("", "-n", "NAMESPACE", "create", "configmap", "beside", "--from-literal=a=b", soon), 0, "created")
	s.wants(s.alike("", "-n", "NAMESPACE", "get", "configmap", "beside", "-o", "jsonpath={.data.a}", soon), 0, "b")
	s.wants(s.alike("", "-n", "NAMESPACE", "delete", "configmap", "beside", soon), 0, "deleted")
	release()
	all.Wait()
	s.T.Logf("turned away: %d directly, %d through the bridge", away[0].Load(), away[1].Load())
	after, err := s.Status(s.T.Context())
	s.Must(err)
	if after.Signatures != before.Signatures {
		s.T.Errorf("%d signatures before, %d after", before.Signatures, after.Signatures)
	}
}
