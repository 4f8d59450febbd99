package csr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const resource = "certificatesigningrequests"

// callTimeout bounds one call other than a watch. It leaves time for a person
// to touch a token when the connection itself is made with one.
const callTimeout = 60 * time.Second

// Client speaks certificates.k8s.io/v1 and what is needed beside it to one
// cluster. It is safe for concurrent use.
type Client struct {
	host           string
	params         runtime.ParameterCodec
	certificates   rest.Interface
	authorization  rest.Interface
	authentication rest.Interface
	http           *http.Client // what all of them send with
}

// Ref names one request for good: a name can be used again, a UID cannot.
type Ref struct {
	Name string
	// UID may be empty where it is not known yet.
	UID types.UID
}

// RefOf is the reference to obj.
func RefOf(obj *certificatesv1.CertificateSigningRequest) Ref {
	return Ref{Name: obj.Name, UID: obj.UID}
}

// NewClient makes a client that connects and authenticates as config says.
// Nothing is sent yet, and config is not changed. Server warnings go to the
// config's handler; without one they are dropped, not printed.
func NewClient(config *rest.Config) (*Client, error) {
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
	c := &Client{host: config.Host, params: runtime.NewParameterCodec(scheme), http: transport}
	var errs [3]error
	c.certificates, errs[0] = group(certificatesv1.SchemeGroupVersion)
	c.authorization, errs[1] = group(authorizationv1.SchemeGroupVersion)
	c.authentication, errs[2] = group(authenticationv1.SchemeGroupVersion)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return c, nil
}

// Host is the address of the API server as configured.
func (c *Client) Host() string { return c.host }

// Create files the request that spec describes. If a request of that name
// exists and holds the very same PKCS#10 and terms, it is returned: the answer
// to an earlier Create may have been lost. Missing rights give a
// *ForbiddenError, another request of that name ErrExists.
func (c *Client) Create(ctx context.Context, spec Spec) (*certificatesv1.CertificateSigningRequest, error) {
	want, err := spec.Object()
	if err != nil {
		return nil, err
	}
	op := "create request " + spec.Name
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got := &certificatesv1.CertificateSigningRequest{}
	err = c.certificates.Post().Resource(resource).Body(want).Do(ctx).Into(got)
	switch {
	case err == nil:
		return got, nil
	case apierrors.IsAlreadyExists(err):
		if old, getErr := c.Get(ctx, spec.Name); getErr == nil && sameTerms(old, want) {
			return old, nil
		}
		return nil, apiError(op, c.host, err)
	case IsForbidden(err):
		return nil, c.forbidden(ctx, op, err, requesterRules()[:1], requesterRules())
	default:
		return nil, apiError(op, c.host, err)
	}
}

func sameTerms(a, b *certificatesv1.CertificateSigningRequest) bool {
	x, y := a.Spec.ExpirationSeconds, b.Spec.ExpirationSeconds
	return bytes.Equal(a.Spec.Request, b.Spec.Request) &&
		a.Spec.SignerName == b.Spec.SignerName &&
		slices.Equal(a.Spec.Usages, b.Spec.Usages) &&
		(x == nil) == (y == nil) && (x == nil || *x == *y)
}

// Get reads the request of that name; ErrNotFound if there is none.
func (c *Client) Get(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
	op := "read request " + name
	obj, err := c.get(ctx, name)
	if IsForbidden(err) {
		return nil, c.lacks(ctx, op, err, "get")
	}
	if err != nil {
		return nil, apiError(op, c.host, err)
	}
	return obj, nil
}

// get leaves the error as client-go gave it.
func (c *Client) get(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	obj := &certificatesv1.CertificateSigningRequest{}
	if err := c.certificates.Get().Resource(resource).Name(name).Do(ctx).Into(obj); err != nil {
		return nil, err
	}
	return obj, nil
}

// Delete removes the request that ref names. With a UID in ref, a successor of
// the same name is left alone and a *ConflictError returned.
func (c *Client) Delete(ctx context.Context, ref Ref) error {
	op := "delete request " + ref.Name
	opts := &metav1.DeleteOptions{}
	if ref.UID != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &ref.UID}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.certificates.Delete().Resource(resource).Name(ref.Name).Body(opts).Do(ctx).Error()
	switch {
	case apierrors.IsConflict(err):
		return c.conflict(ctx, op, ref, err)
	case IsForbidden(err):
		return c.lacks(ctx, op, err, "delete")
	default:
		return apiError(op, c.host, err)
	}
}
