// kubehsm-cluster is the cluster's half of kubehsm: it approves certificate requests
// that are proven, denies those that are forged, and leaves the rest to people.
package main

import (
	"context"
	_ "embed" // the approver's roles
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/kubehsm-cluster/approver"
)

// The leader's lease: a leader that was killed is succeeded after leaseDuration.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 6 * time.Second
	retryPeriod   = time.Second
)

// roles are what the approver may do.
//
//go:embed manifests/rbac.yaml
var roles []byte

type options struct {
	metrics, probes string
	workers         int
	debug           bool
}

func main() {
	var o options
	flag.StringVar(&o.metrics, "metrics-address", ":8080", "where Prometheus reads metrics, host:port; 0 serves none")
	flag.StringVar(&o.probes, "probe-address", ":8081", "where the kubelet asks for /healthz and /readyz, host:port")
	flag.IntVar(&o.workers, "workers", 16, "how many requests are decided on at a time")
	flag.BoolVar(&o.debug, "debug", false, "log more")
	flag.Parse()
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "kubehsm-cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1 // the API server does its own sharing out
	config.Wrap(inPieces)
	informers := &approver.Informers{}
	mgr, err := manager(config, o, informers)
	if err != nil {
		return err
	}
	if err := approver.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	m := approver.NewMetrics(mgr.GetCache(), informers)
	if err := metrics.Registry.Register(m); err != nil {
		return err
	}
	rights := approver.Rights{Manifest: roles, API: mgr.GetClient(), Events: mgr.GetEventRecorder("kubehsm-cluster"),
		Metrics: m}
	go func() { // the manager starts nothing before its caches are filled, for which rights may be missing
		if err := rights.Run(ctx); err != nil {
			ctrl.Log.Error(err, "look at the approver's rights")
		}
	}()
	r := &approver.Requests{Cache: mgr.GetCache(), API: mgr.GetAPIReader(), Objects: mgr.GetClient(), Informers: informers,
		Events: mgr.GetEventRecorder("kubehsm-cluster"), Metrics: m}
	if err := r.Start(mgr, o.workers); err != nil {
		return err
	}
	c, err := csr.NewClient(config)
	if err != nil {
		return err
	}
	revocations := &approver.Revocations{Cache: mgr.GetCache(), API: mgr.GetAPIReader(), Objects: mgr.GetClient(),
		Events: mgr.GetEventRecorder("kubehsm-cluster"), Rights: c.Rights()}
	if err := revocations.Start(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// unread is how many bytes the API server may send of an answer that nobody has read yet. Go's 4 MiB are for each
// answer, and the lists of all kinds come at the same time.
const unread = 256 << 10

// inPieces has connections take no more than [unread] bytes of an answer ahead.
func inPieces(rt http.RoundTripper) http.RoundTripper {
	for at := rt; ; {
		switch t := at.(type) {
		case *http.Transport:
			if t.HTTP2 == nil { // clients share it
				t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: unread}
			}
			return rt
		case utilnet.RoundTripperWrapper:
			at = t.WrappedRoundTripper()
		default:
			return rt
		}
	}
}

// manager keeps the caches, elects the leader and serves probes and metrics.
func manager(config *rest.Config, o options, informers *approver.Informers) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, corev1.AddToScheme,
		authorizationv1.AddToScheme, eventsv1.AddToScheme, admissionregistrationv1.AddToScheme, clusterapi.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	revoked := labels.SelectorFromSet(labels.Set{revocation.Label: "true"})
	ours := map[string]cache.Config{clusterapi.Namespace: {}}
	lease, renew, retry := leaseDuration, renewDeadline, retryPeriod
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:         scheme,
		LeaderElection: true, LeaderElectionID: "kubehsm-cluster", LeaderElectionNamespace: clusterapi.Namespace,
		LeaderElectionReleaseOnCancel: true, LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Metrics: server.Options{BindAddress: o.metrics}, HealthProbeBindAddress: o.probes,
		Cache: cache.Options{
			NewInformer: informers.New,
			DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
				if apierrors.IsForbidden(err) {
					err = fmt.Errorf("%s: %w", approver.Outdated, err)
				}
				toolscache.DefaultWatchErrorHandler(ctx, r, err)
			},
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&certificatesv1.CertificateSigningRequest{}:                 {Transform: approver.Stub},
				&admissionregistrationv1.ValidatingAdmissionPolicy{}:        {Label: revoked},
				&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}: {Label: revoked},
				&clusterapi.HardwareToken{}:                                 {Namespaces: ours, Transform: approver.Slim},
				&clusterapi.RequestReview{}:                                 {Namespaces: ours, Transform: approver.Bare},
				&clusterapi.EnrollmentPolicy{}:                              {Namespaces: ours},
				&clusterapi.Revocation{}:                                    {Namespaces: ours, Transform: approver.Bare},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("caches", func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return fmt.Errorf("the caches are not filled yet")
		}
		return nil
	})
}
