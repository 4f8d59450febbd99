package approver

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/test/poll"
)

// What the API server lists again unchanged is in memory once, and what has changed is read anew.
func TestListedAgain(t *testing.T) {
	api := cachetesting.NewFakeControllerSource()
	of := func(name, signer string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1, 0))},
			Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: []byte("a request")}}
	}
	for _, name := range []string{"same", "changed", "gone"} {
		api.Add(of(name, csr.ClientSigner))
	}
	i := new(Informers).New(api, &certificatesv1.CertificateSigningRequest{}, 0, cache.Indexers{})
	if err := i.SetTransform(Stub); err != nil {
		t.Fatal(err)
	}
	go i.RunWithContext(t.Context())
	poll.Until(t, "all are there", func() bool { return len(i.GetStore().ListKeys()) == 3 })
	had := func(name string) *certificatesv1.CertificateSigningRequest {
		o, _, err := i.GetStore().GetByKey(name)
		if err != nil {
			t.Fatal(err)
		}
		obj, _ := o.(*certificatesv1.CertificateSigningRequest)
		return obj
	}
	same, changed := had("same"), had("changed")

	api.ModifyDropWatch(of("changed", "another.io/signer"))
	api.DeleteDropWatch(of("gone", csr.ClientSigner))
	api.ResetWatch() // the watch ends, and cannot go on where it was
	poll.Until(t, "they are listed again", func() bool { return had("gone") == nil })
	if had("same") != same {
		t.Error("a request that is the same is in memory again")
	}
	if o := had("changed"); o == changed || o.Spec.SignerName != "another.io/signer" || len(o.Spec.Request) > 0 {
		t.Errorf("the request that has changed is %+v", o)
	}
}

// A request of the same name and version is another one if it was made at another time.
func TestMadeAnew(t *testing.T) {
	i := new(Informers).New(&cache.ListWatch{}, &certificatesv1.CertificateSigningRequest{}, 0,
		cache.Indexers{}).(informer)
	old := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "jane", ResourceVersion: "5",
		CreationTimestamp: metav1.NewTime(time.Unix(1, 0))}}
	if err := i.GetStore().Add(old); err != nil {
		t.Fatal(err)
	}
	o := old.DeepCopy()
	if had, ok := i.has(o); !ok || had != any(old) {
		t.Error("the same is not found")
	}
	o.CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
	if had, ok := i.has(o); ok || had != any(o) {
		t.Errorf("another is taken for it: %v", had)
	}
}
