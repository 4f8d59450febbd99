package approver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// oneToken is a cluster with one token, and one request that was issued. It finds the token as the cache does.
type oneToken struct {
	client.Client
	token   clusterapi.HardwareToken
	stub    certificatesv1.CertificateSigningRequest
	written *clusterapi.HardwareToken
}

func (c *oneToken) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if into, ok := o.(*certificatesv1.CertificateSigningRequest); ok {
		c.stub.DeepCopyInto(into)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c *oneToken) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	for by, keys := range map[string]client.IndexerFunc{byKey: tokenKeys, byOtherKey: otherKeys} {
		if bucket, ok := o.FieldSelector.RequiresExactMatch(by); ok && slices.Contains(keys(&c.token), bucket) {
			into.(*clusterapi.HardwareTokenList).Items = []clusterapi.HardwareToken{c.token}
		}
	}
	return nil
}

func (c *oneToken) Status() client.SubResourceWriter { return writes{c: c} }

// writes keeps what is written.
type writes struct {
	client.SubResourceWriter
	c *oneToken
}

func (w writes) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	w.c.written = o.(*clusterapi.HardwareToken)
	return nil
}

// TestFormerKey: a key whose certificate was not the last one is the token's all the same. So the roster decides on its
// renewals, and keeps what was issued to it, without another proof.
func TestFormerKey(t *testing.T) {
	former, certificate := sha256.Sum256([]byte("former")), sha256.Sum256([]byte("certificate"))
	key, now := hex.EncodeToString(former[:]), time.Now().Truncate(time.Second)
	end := metav1.NewTime(now.Add(time.Hour))
	c := &oneToken{token: clusterapi.HardwareToken{ObjectMeta: metav1.ObjectMeta{Name: "123"},
		Spec: clusterapi.TokenSpec{Owner: "jane", State: clusterapi.Active},
		Status: clusterapi.TokenStatus{Key: "last", Model: "YubiKey 5C", Touch: "always", Certificate: "c", NotAfter: &end,
			Others: []clusterapi.TokenCertificate{{Certificate: "d", Key: key, NotAfter: end}}}}}
	for hash, found := range map[string]bool{key: true, "last": true, "another": false} {
		if got, err := (facts{ctx: t.Context(), cache: c}).TokenWithKey(hash); err != nil || (got != nil) != found {
			t.Errorf("%s: %v, %v", hash, got, err)
		}
	}
	for hours, want := range map[int]clusterapi.TokenStatus{
		2: {Key: key, Model: "YubiKey 5C", Certificate: hex.EncodeToString(certificate[:])}, // the last one from now on
		0: {Key: "last", Model: "YubiKey 5C", Certificate: "c"},
	} {
		issued := gist{key: former, certificate: certificate, end: now.Add(time.Duration(hours)*time.Hour + time.Minute).Unix()}
		c.stub.Spec.UID, c.written = issued.packed(), nil
		r := Requests{Cache: c, API: c, Objects: c, Informers: &Informers{}}
		if err := r.issued(t.Context(), "request"); err != nil || c.written == nil {
			t.Fatalf("in %d h: %v, %v", hours, err, c.written)
		}
		got := c.written.Status
		if got.Key != want.Key || got.Model != want.Model || got.Certificate != want.Certificate || len(got.Live(now)) != 3 {
			t.Errorf("in %d h: %+v", hours, got)
		}
		if !slices.ContainsFunc(got.Live(now), func(l clusterapi.TokenCertificate) bool {
			return l.Certificate == hex.EncodeToString(certificate[:]) && l.Key == key
		}) {
			t.Errorf("in %d h it lacks the new one: %+v", hours, got)
		}
	}
}
