package csr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

const resource = "certificatesigningrequests"

// callTimeout bounds one call other than a watch, see [Client.Patient]. It leaves time
// for a person to touch a token when the connection itself is made with one.
const callTimeout = 60 * time.Second

// forecastTimeout bounds each question: a forecast is worth a moment, no more.
const forecastTimeout = 10 * time.Second

// api holds the clients that speak to one API server.
type api struct {
	host           string // address of the API server, as configured
	params         runtime.ParameterCodec
	certificates   rest.Interface
	authorization  rest.Interface
	authentication rest.Interface
	http           *http.Client // the client that all of them send with
	patience       time.Duration
}

// bounded is the context of one call other than a watch.
func (a *api) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.patience)
}

// newAPI connects and authenticates as config says, which is not changed.
func newAPI(config *rest.Config) (*api, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		certificatesv1.AddToScheme, authorizationv1.AddToScheme, authenticationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("set up the API types: %w", err)
		}
	}
	cfg := rest.CopyConfig(config)
	cfg.APIPath = "/apis"
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if cfg.QPS == 0 {
		// The default of 5 calls a second is for controllers; the API server
		// does its own sharing out.
		cfg.QPS = -1
	}
	if cfg.WarningHandler == nil && cfg.WarningHandlerWithContext == nil {
		cfg.WarningHandler = rest.NoWarnings{}
	}
	transport, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	group := func(gv schema.GroupVersion) (rest.Interface, error) {
		cfg.GroupVersion = &gv
		c, err := rest.RESTClientForConfigAndClient(cfg, transport)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
		}
		return c, nil
	}
	a := &api{host: config.Host, params: runtime.NewParameterCodec(scheme), http: transport, patience: callTimeout}
	var errs [3]error
	a.certificates, errs[0] = group(certificatesv1.SchemeGroupVersion)
	a.authorization, errs[1] = group(authorizationv1.SchemeGroupVersion)
	a.authentication, errs[2] = group(authenticationv1.SchemeGroupVersion)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return a, nil
}

// maxAnswer bounds what is read of an answer that is not the API machinery's, in bytes.
const maxAnswer = 4 << 20

func readJSON(r io.Reader, to any) error {
	return json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(to)
}
