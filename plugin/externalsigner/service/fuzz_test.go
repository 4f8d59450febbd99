package service

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"maps"
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
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		same(t, b, m)
		opts, err := m.opts.signer()
		if err != nil {
			return
		}
		r, err := call{config: m.configuration, digest: m.digest, opts: opts}.request()
		if err != nil {
			if !errors.Is(err, externalsigner.ErrRequest) {
				t.Fatal(err)
			}
			return
		}
		defer r.Zero()
		h := r.Opts.HashFunc()
		if r.Operation != wire.Sign || h != 0 && len(r.Digest) != h.Size() || h == 0 && (len(r.Digest) == 0 || len(r.Digest) > wire.MaxMessage) {
			t.Fatalf("%+v", r)
		}
		if pss, ok := r.Opts.(*rsa.PSSOptions); ok && (h == 0 || pss.SaltLength < rsa.PSSSaltLengthEqualsHash) {
			t.Fatalf("%+v", pss)
		}
	})
}

// same compares what was read with what protobuf's own code reads. That may
// refuse what is not read here, such as a cluster.
func same(t *testing.T, b []byte, m message) {
	t.Helper()
	var want v1alpha1.SignatureRequest
	if proto.Unmarshal(b, &want) != nil {
		return
	}
	if m.version != want.GetVersion() || !maps.Equal(m.configuration, want.GetConfiguration()) || !bytes.Equal(m.digest, want.GetDigest()) {
		t.Fatalf("read %+v, but it is %v", m, &want)
	}
	var opts signerOpts
	switch o := want.GetSignerOpts().(type) {
	case *v1alpha1.SignatureRequest_SignerOptsRSAPKCS1:
		opts = signerOpts{fieldPKCS1, o.SignerOptsRSAPKCS1.GetHash(), 0}
	case *v1alpha1.SignatureRequest_SignerOptsRSAPSS:
		opts = signerOpts{fieldPSS, o.SignerOptsRSAPSS.GetHash(), o.SignerOptsRSAPSS.GetSaltLenght()}
	case *v1alpha1.SignatureRequest_SignerOptsECDSA:
		opts = signerOpts{fieldECDSA, o.SignerOptsECDSA.GetHash(), 0}
	case *v1alpha1.SignatureRequest_SignerOptsED25519:
		opts = signerOpts{fieldEd25519, o.SignerOptsED25519.GetHash(), 0}
	}
	if m.opts != opts {
		t.Fatalf("read %+v, but it is %+v", m.opts, opts)
	}
}

// TestMessages: what protobuf's own code writes is read, and the other way round.
func TestMessages(t *testing.T) {
	for _, r := range []*v1alpha1.SignatureRequest{
		{},
		{Version: version, Cluster: &v1alpha1.Cluster{Server: "https://c", CaData: []byte{1}}, Configuration: map[string]string{"a": "b", "": "c", "ü": ""},
			Digest: bytes.Repeat([]byte{9}, 1000), SignerOpts: &v1alpha1.SignatureRequest_SignerOptsECDSA{SignerOptsECDSA: generic(5)}},
		{SignerOpts: &v1alpha1.SignatureRequest_SignerOptsRSAPSS{SignerOptsRSAPSS: &v1alpha1.SignatureRequest_RSAPSSOptions{SaltLenght: -1, Hash: 1<<32 - 1}}},
		{SignerOpts: &v1alpha1.SignatureRequest_SignerOptsRSAPKCS1{SignerOptsRSAPKCS1: generic(6)}},
		{SignerOpts: &v1alpha1.SignatureRequest_SignerOptsED25519{}},
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		m, err := parse(b)
		if err != nil {
			t.Errorf("%v: %v", r, err)
		}
		same(t, b, m)
	}
	var answer v1alpha1.SignatureResponse
	if err := proto.Unmarshal(one(fieldAnswer, []byte("s")), &answer); err != nil || string(answer.GetSignature()) != "s" {
		t.Errorf("%v, %v", &answer, err)
	}
	if err := proto.Unmarshal(one(fieldPrompt, []byte("p")), &answer); err != nil || answer.GetUserPrompt() != "p" {
		t.Errorf("%v, %v", &answer, err)
	}
	for _, b := range [][]byte{{0x0a}, {0x0a, 5, 'a'}, {0x0a, 1, 0xff}, {0x08, 1}, {0x1a, 2, 0x0a, 9}, {0x22}, {0x20, 1}, {0x02, 0},
		{0x2a, 0, 0x32, 0}, {0x2a, 2, 0x0a, 0}, {0x0b}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		if m, err := parse(b); err == nil {
			t.Errorf("%x: %+v", b, m)
		}
	}
}
