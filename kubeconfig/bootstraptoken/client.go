package bootstraptoken

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

const (
	resource = "secrets"
	// pageSize bounds one answer of a list.
	pageSize = 200
	// callTimeout bounds one call. It leaves time for a person to touch a token
	// when the connection itself is made with one.
	callTimeout = 60 * time.Second
)

// Client keeps bootstrap tokens in one cluster. It speaks of Secrets in
// [Namespace] only. It is safe for concurrent use.
type Client struct {
	secrets rest.Interface
	params  runtime.ParameterCodec
	host    string
}

// NewClient makes a client that connects and authenticates as config says.
// Nothing is sent yet, and config is not changed.
func NewClient(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	gv := corev1.SchemeGroupVersion
	// Two kinds of some sixty: the rest of core/v1 is none of our business.
	scheme.AddKnownTypes(gv, &corev1.Secret{}, &corev1.SecretList{})
	metav1.AddToGroupVersion(scheme, gv)

	cfg := rest.CopyConfig(config)
	cfg.APIPath = "/api"
	cfg.GroupVersion = &gv
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if cfg.WarningHandler == nil && cfg.WarningHandlerWithContext == nil {
		cfg.WarningHandler = rest.NoWarnings{}
	}
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return &Client{secrets: c, params: runtime.NewParameterCodec(scheme), host: config.Host}, nil
}

// Create tells the cluster of a token. If it knows the very same token and
// terms, that is success: the answer to an earlier Create may have been lost.
// Any other token of that ID is [ErrExists]. A record that is not valid or has
// expired is [ErrInvalid] and is not sent.
func (c *Client) Create(ctx context.Context, r Record) error {
	want, err := r.Secret()
	if err != nil {
		return err
	}
	defer wipe(want)
	if r.Expired(time.Now()) {
		return fmt.Errorf("%w: it expired at %s", ErrInvalid, r.Expires.Format(time.RFC3339))
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = c.secrets.Post().Namespace(Namespace).Resource(resource).Body(want).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		if old, getErr := c.Get(ctx, r.Token.ID()); getErr == nil && r.same(old) {
			return nil
		}
	}
	return c.apiError("create bootstrap token "+r.Token.ID(), "create", err)
}

// Get reads one token by its ID.
func (c *Client) Get(ctx context.Context, id string) (Record, error) {
	if !ValidID(id) {
		return Record{}, fmt.Errorf("%w ID", ErrMalformed)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got := &corev1.Secret{}
	if err := c.secrets.Get().Namespace(Namespace).Resource(resource).Name(SecretName(id)).Do(ctx).Into(got); err != nil {
		return Record{}, c.apiError("read bootstrap token "+id, "get", err)
	}
	defer wipe(got)
	return FromSecret(got)
}

// Ignored is a Secret of the right type that is no token to the cluster.
type Ignored struct {
	// Name is the Secret's: untrusted text.
	Name string
	// Err wraps [ErrNotToken] and says why.
	Err error
}

// List reads all tokens, expired ones included, sorted by expiry (those that
// never expire last) and ID. Broken ones are given apart and do not fail the
// list.
func (c *Client) List(ctx context.Context) ([]Record, []Ignored, error) {
	var (
		records []Record
		ignored []Ignored
	)
	from := ""
	for restarts := 0; ; {
		page, err := c.page(ctx, from)
		if apierrors.IsResourceExpired(err) && from != "" && restarts < 3 {
			// The list grew older than the cluster keeps: begin again.
			records, ignored, from = nil, nil, ""
			restarts++
			continue
		}
		if err != nil {
			return nil, nil, c.apiError("list bootstrap tokens", "list", err)
		}
		for i := range page.Items {
			r, err := FromSecret(&page.Items[i])
			if err != nil {
				ignored = append(ignored, Ignored{page.Items[i].Name, err})
			} else {
				records = append(records, r)
			}
			wipe(&page.Items[i])
		}
		if from = page.Continue; from == "" {
			break
		}
	}
	slices.SortFunc(records, byExpiry)
	return records, ignored, nil
}

func (c *Client) page(ctx context.Context, from string) (*corev1.SecretList, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	page := &corev1.SecretList{}
	err := c.secrets.Get().Namespace(Namespace).Resource(resource).VersionedParams(&metav1.ListOptions{
		FieldSelector: "type=" + string(SecretType), Limit: pageSize, Continue: from,
	}, c.params).Do(ctx).Into(page)
	return page, err
}

func byExpiry(a, b Record) int {
	switch {
	case a.Expires.IsZero() != b.Expires.IsZero():
		if a.Expires.IsZero() {
			return 1
		}
		return -1
	case !a.Expires.Equal(b.Expires):
		return a.Expires.Compare(b.Expires)
	default:
		return strings.Compare(a.Token.ID(), b.Token.ID())
	}
}

// Delete removes the token with this ID ([ParseID] takes one out of a whole
// token); [ErrNotFound] if there is none.
func (c *Client) Delete(ctx context.Context, id string) error {
	if !ValidID(id) {
		return fmt.Errorf("%w ID", ErrMalformed)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.secrets.Delete().Namespace(Namespace).Resource(resource).Name(SecretName(id)).Do(ctx).Error()
	return c.apiError("delete bootstrap token "+id, "delete", err)
}

// wipe overwrites the token's secret in an answer or a request.
func wipe(s *corev1.Secret) { clear(s.Data[keySecret]) }
