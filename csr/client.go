package csr

import (
	"bytes"
	"context"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Client files, reads, follows and decides on requests (certificates.k8s.io/v1) in one
// cluster. It is safe for concurrent use.
type Client struct{ *api }

// Rights returns what tells who the caller is in this cluster, and what is allowed there.
func (c *Client) Rights() Rights { return Rights{c.api} }

// ControlPlane returns what tells of this cluster's control plane.
func (c *Client) ControlPlane() ControlPlane { return ControlPlane{c.api} }

// Patient is this client with another limit to how long one call may take other than a
// watch, for where a person may be asked about it. The default is a minute.
func (c *Client) Patient(limit time.Duration) *Client {
	a := *c.api
	a.patience = limit
	return &Client{&a}
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
	a, err := newAPI(config)
	if err != nil {
		return nil, err
	}
	return &Client{a}, nil
}

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
	ctx, cancel := c.bounded(ctx)
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
		return nil, c.Rights().forbidden(ctx, op, err, requesterRules()[:1], requesterRules())
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
	ctx, cancel := c.bounded(ctx)
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
	ctx, cancel := c.bounded(ctx)
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

// lacks is forbidden for one verb on requests.
func (c *Client) lacks(ctx context.Context, op string, err error, verb string) error {
	rules := []Rule{{Verb: verb, Group: certificatesv1.GroupName, Resource: resource}}
	return c.Rights().forbidden(ctx, op, err, rules, rules)
}
