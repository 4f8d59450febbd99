//go:build !whole

package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	quota "k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/bootstrap"
	"k8s.io/kubernetes/pkg/controller/certificates/approver"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
)

func init() { programs["controllers"] = runControllers }

// runControllers runs upstream's controllers of certificates, bootstrap tokens,
// namespaces, service accounts, aggregated roles and quotas, as one client. The
// flags are the controller manager's where it has them.
func runControllers() {
	var o controllerOptions
	kubeconfig := flag.String("kubeconfig", "", "of an `admin`")
	flag.StringVar(&o.caFile, "cluster-signing-cert-file", "", "the CA that issues client certificates (PEM)")
	flag.StringVar(&o.keyFile, "cluster-signing-key-file", "", "its key (PEM)")
	qps := flag.Float64("kube-api-qps", 200, "requests a second")
	burst := flag.Int("kube-api-burst", 400, "requests at once")
	address := flag.String("address", "", "serve /healthz on `HOST:PORT`")
	cert := flag.String("tls-cert-file", "", "that server's certificate (PEM)")
	key := flag.String("tls-private-key-file", "", "its key (PEM)")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal("controllers: ", err)
	}
	config.QPS, config.Burst = float32(*qps), *burst
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := startControllers(ctx, config, o); err != nil {
		log.Fatal("controllers: ", err)
	}
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Addr: *address, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServeTLS(*cert, *key); ctx.Err() == nil {
		log.Fatal("controllers: ", err)
	}
}

// controllerOptions name the CA that issues client certificates.
type controllerOptions struct{ caFile, keyFile string }

// certificateLife is the controller manager's --cluster-signing-duration, as it is unless set.
const certificateLife = 365 * 24 * time.Hour

// resync is how often everything is looked at again.
const resync = 12 * time.Hour

// startControllers starts every controller and returns once all have begun; they end with ctx.
func startControllers(ctx context.Context, config *rest.Config, o controllerOptions) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	partial, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	known := informers.NewSharedInformerFactory(client, resync)
	all := informerfactory.NewInformerFactory(known, metadatainformer.NewSharedInformerFactory(partial, resync))
	started := make(chan struct{})

	runs, err := certificateControllers(ctx, client, known, o)
	if err != nil {
		return err
	}
	for _, more := range []func() ([]func(context.Context), error){
		func() ([]func(context.Context), error) { return bootstrapControllers(client, known) },
		func() ([]func(context.Context), error) {
			return namespaceControllers(ctx, client, partial, known, config.CAData)
		},
		func() ([]func(context.Context), error) { return quotaController(ctx, client, known, all, started) },
	} {
		add, err := more()
		if err != nil {
			return err
		}
		runs = append(runs, add...)
	}
	roles := clusterroleaggregation.NewClusterRoleAggregation(known.Rbac().V1().ClusterRoles(), client.RbacV1())
	runs = append(runs, func(ctx context.Context) { roles.Run(ctx, 5) })

	known.Start(ctx.Done())
	all.Start(ctx.Done())
	close(started)
	for _, run := range runs {
		go run(ctx)
	}
	return nil
}

func certificateControllers(ctx context.Context, client kubernetes.Interface, known informers.SharedInformerFactory,
	o controllerOptions) (runs []func(context.Context), _ error) {
	requests := known.Certificates().V1().CertificateSigningRequests()
	for _, issuer := range []struct{ name, signer string }{
		{"csrsigning-kubelet-serving", "kubernetes.io/kubelet-serving"},
		{"csrsigning-kubelet-client", "kubernetes.io/kube-apiserver-client-kubelet"},
		{"csrsigning-kube-apiserver-client", "kubernetes.io/kube-apiserver-client"},
		{"csrsigning-legacy-unknown", "kubernetes.io/legacy-unknown"},
	} {
		c, err := signer.NewCSRSigningController(ctx, issuer.name, issuer.signer, client, requests, o.caFile, o.keyFile,
			certificateLife)
		if err != nil {
			return nil, err
		}
		runs = append(runs, func(ctx context.Context) { c.Run(ctx, 5) })
	}
	approving := approver.NewCSRApprovingController(ctx, client, requests)
	cleaning := cleaner.NewCSRCleanerController(client.CertificatesV1().CertificateSigningRequests(), requests)
	return append(runs, func(ctx context.Context) { approving.Run(ctx, 5) },
		func(ctx context.Context) { cleaning.Run(ctx, 1) }), nil
}

func bootstrapControllers(client kubernetes.Interface, known informers.SharedInformerFactory) (
	[]func(context.Context), error) {
	secrets, maps := known.Core().V1().Secrets(), known.Core().V1().ConfigMaps()
	signing, err := bootstrap.NewSigner(client, secrets, maps, bootstrap.DefaultSignerOptions())
	if err != nil {
		return nil, err
	}
	cleaning, err := bootstrap.NewTokenCleaner(client, secrets, bootstrap.DefaultTokenCleanerOptions())
	if err != nil {
		return nil, err
	}
	return []func(context.Context){signing.Run, cleaning.Run}, nil
}

// namespaceControllers empty deleted namespaces, and give new ones a service account and the cluster's CA.
func namespaceControllers(ctx context.Context, client kubernetes.Interface, partial metadata.Interface,
	known informers.SharedInformerFactory, rootCA []byte) ([]func(context.Context), error) {
	core := known.Core().V1()
	ending := namespace.NewNamespaceController(ctx, client, partial, client.Discovery().ServerPreferredNamespacedResources,
		core.Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes)
	accounts, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(),
		core.Namespaces(), client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	publisher, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, rootCA)
	if err != nil {
		return nil, err
	}
	return []func(context.Context){
		func(ctx context.Context) { ending.Run(ctx, 5) },
		func(ctx context.Context) { accounts.Run(ctx, 1) },
		func(ctx context.Context) { publisher.Run(ctx, 1) },
	}, nil
}

func quotaController(ctx context.Context, client kubernetes.Interface, known informers.SharedInformerFactory,
	all informerfactory.InformerFactory, started chan struct{}) ([]func(context.Context), error) {
	configuration, err := quotainstall.NewQuotaConfigurationForControllers(
		quota.ListerFuncForResourceFunc(known.ForResource), known)
	if err != nil {
		return nil, err
	}
	discover := client.Discovery().ServerPreferredNamespacedResources
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     known.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(time.Second),
		InformerFactory:           all,
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(resync),
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      configuration.IgnoredResources,
		InformersStarted:          started,
		Registry:                  quota.NewRegistry(configuration.Evaluators()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	return []func(context.Context){
		func(ctx context.Context) { c.Run(ctx, 5) },
		func(ctx context.Context) { c.Sync(ctx, discover, 30*time.Second) },
	}, nil
}
