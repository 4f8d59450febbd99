package service

import (
	"crypto/rsa"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// FuzzSignatureRequest: no message makes a request that is not sound.
func FuzzSignatureRequest(f *testing.F) {
	for _, r := range []*v1alpha1.SignatureRequest{
		{Configuration: config, Digest: make([]byte, 32), SignerOpts: &v1alpha1.SignatureRequest_SignerOptsECDSA{SignerOptsECDSA: generic(5)}},
		{Configuration: config, Digest: make([]byte, 48), SignerOpts: &v1alpha1.SignatureRequest_SignerOptsRSAPKCS1{SignerOptsRSAPKCS1: generic(6)}},
		{Configuration: config, Digest: []byte("message"), SignerOpts: &v1alpha1.SignatureRequest_SignerOptsED25519{}},
		{Configuration: config, Digest: make([]byte, 64), SignerOpts: &v1alpha1.SignatureRequest_SignerOptsRSAPSS{
			SignerOptsRSAPSS: &v1alpha1.SignatureRequest_RSAPSSOptions{SaltLenght: -1, Hash: 7}}},
	} {
		b, err := proto.Marshal(r)
		check(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m v1alpha1.SignatureRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		opts, err := signerOpts(&m)
		if err != nil {
			return
		}
		r, err := wire.FromParts(m.GetConfiguration(), m.GetDigest(), opts)
		if err != nil {
			if !errors.Is(err, externalsigner.ErrRequest) {
				t.Fatal(err)
			}
			return
		}
		defer r.Zero()
		h := r.Opts.HashFunc()
		if r.Operation != wire.Sign || h != 0 && len(r.Digest) != h.Size() || h == 0 &&
			(len(r.Digest) == 0 || len(r.Digest) > wire.MaxMessage) {
			t.Fatalf("%+v", r)
		}
		if pss, ok := r.Opts.(*rsa.PSSOptions); ok && (h == 0 || pss.SaltLength < rsa.PSSSaltLengthEqualsHash) {
			t.Fatalf("%+v", pss)
		}
	})
}
