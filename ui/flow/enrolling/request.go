package enrolling

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
)

// Request is the record of a request that was filed from here. It is written
// before the request is filed, so that nothing is lost by a crash.
type Request struct {
	Name string `json:"name"`
	// UID is the cluster's, "" until it has answered.
	UID string `json:"uid,omitempty"`
	// Context and Server say where it was filed.
	Context string    `json:"context"`
	Server  string    `json:"server"`
	Key     hsm.URI   `json:"key,omitzero"`
	KeyHash string    `json:"keyHash"`
	Spec    csr.Spec  `json:"spec"`
	Created time.Time `json:"created"`
}

// Ask makes r the request that o describes, with its PKCS#10.
func (r *Request) Ask(name string, pem []byte, o *Options) {
	r.Name, r.Context = name, o.Context
	r.Spec = csr.Spec{Name: name, Request: pem, SignerName: o.SignerName, Expiration: o.Expiration,
		Reason: o.Reason, Labels: o.Labels}
}

// Forget leaves nothing but the key.
func (r *Request) Forget() { *r = Request{Key: r.Key, KeyHash: r.KeyHash} }

// Ref names the request in its cluster.
func (r *Request) Ref() csr.Ref { return csr.Ref{Name: r.Name, UID: types.UID(r.UID)} }
