package csr

import (
	"context"
	"errors"
	"fmt"
	"iter"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// DefaultPageSize is how many requests List fetches at once.
const DefaultPageSize = 500

// ListOptions choose requests. The zero value chooses all of them.
type ListOptions struct {
	// SignerName, if not empty, is matched exactly by the server.
	SignerName string
	// LabelSelector as kubectl's -l takes it.
	LabelSelector string
	// PageSize is the number of items fetched at once; 0 is DefaultPageSize.
	PageSize int64
	// Continue is the token of the page before; only Page reads it.
	Continue string
	// ResourceVersion is where a watch begins; only Watch reads it. Empty
	// begins with an ADDED event for everything there is.
	ResourceVersion string
}

func (o ListOptions) selector() string {
	set := fields.Set{}
	if o.SignerName != "" {
		set["spec.signerName"] = o.SignerName
	}
	return set.AsSelector().String()
}

// Page fetches one page. The list's Continue is the token for the next one,
// its ResourceVersion the place to watch from.
func (c *Client) Page(ctx context.Context, o ListOptions) (*certificatesv1.CertificateSigningRequestList, error) {
	if o.PageSize == 0 {
		o.PageSize = DefaultPageSize
	}
	const op = "list requests"
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	list := &certificatesv1.CertificateSigningRequestList{}
	err := c.certificates.Get().Resource(resource).
		VersionedParams(&metav1.ListOptions{
			FieldSelector: o.selector(), LabelSelector: o.LabelSelector,
			Limit: o.PageSize, Continue: o.Continue,
		}, c.params).
		Do(ctx).Into(list)
	if IsForbidden(err) {
		return nil, c.lacks(ctx, op, err, "list")
	}
	if err != nil {
		return nil, apiError(op, c.host, err)
	}
	return list, nil
}

// List goes through the chosen requests page by page. An error ends it. When a
// page's token has expired the rest is read as it is now, which the server
// offers; an item may then be seen twice or missed if it changed meanwhile.
func (c *Client) List(ctx context.Context, o ListOptions) iter.Seq2[*certificatesv1.CertificateSigningRequest, error] {
	return func(yield func(*certificatesv1.CertificateSigningRequest, error) bool) {
		for {
			list, err := c.Page(ctx, o)
			if token := continueAfter(err); token != "" && token != o.Continue {
				o.Continue = token
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range list.Items {
				if !yield(&list.Items[i], nil) {
					return
				}
			}
			if list.Continue == "" {
				return
			}
			o.Continue = list.Continue
		}
	}
}

// continueAfter is the token that a 410 answer to a page carries.
func continueAfter(err error) string {
	var s apierrors.APIStatus
	if errors.Is(err, ErrExpired) && errors.As(err, &s) {
		return s.Status().Continue
	}
	return ""
}

// watch streams changes of the chosen requests until ctx ends, Stop is called
// or the server ends it. The caller handles ERROR events; watchError reads them.
func (c *Client) watch(ctx context.Context, o ListOptions) (watch.Interface, error) {
	const op = "watch requests"
	w, err := c.certificates.Get().Resource(resource).
		VersionedParams(&metav1.ListOptions{Watch: true, FieldSelector: o.selector(), LabelSelector: o.LabelSelector,
			ResourceVersion: o.ResourceVersion}, c.params).Watch(ctx)
	if IsForbidden(err) {
		return nil, c.lacks(ctx, op, err, "watch")
	}
	if err != nil {
		return nil, apiError(op, c.host, err)
	}
	return w, nil
}

// watchError is the error in an ERROR event of watch; ErrExpired means: list
// again, then watch from there.
func (c *Client) watchError(e watch.Event) error {
	if e.Type != watch.Error {
		return nil
	}
	return apiError("watch requests", c.host, apierrors.FromObject(e.Object))
}

// asRequest is the request in a watch event.
func asRequest(e watch.Event) (*certificatesv1.CertificateSigningRequest, error) {
	obj, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil, fmt.Errorf("watch requests: unexpected %T in an event of type %s", e.Object, e.Type)
	}
	return obj, nil
}
