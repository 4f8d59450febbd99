package enroll

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// certificateOf is a client certificate for the key that u names, by its own word.
func certificateOf(t *testing.T, e *env.Env, u hsm.URI) []byte {
	t.Helper()
	return certificateFor(t, e, u, "", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

// certificateFor is one for user, good from then to then.
func certificateFor(t *testing.T, e *env.Env, u hsm.URI, user string, from, to time.Time) []byte {
	t.Helper()
	ctx := context.Background()
	token, err := e.Drivers.Open(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	defer token.Close()
	signer, err := token.Signer(ctx, u, nil, &typist{})
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user}, NotBefore: from,
		NotAfter: to,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestImportForAnEnrollment(t *testing.T) {
	t.Parallel() // it waits for a lock
	keys := func(e *env.Env) token.Keys { return token.Keys{Env: e} }
	ctx := context.Background()
	e, fake := flowtest.Env(t)
	token := fake.Add(hsmtest.FakeOptions{Label: "blue"})
	r := begin(t, e, enrolling.Options{Name: "prod-hsm", User: "jane"}, &typist{})
	makeKey(t, r)
	if err := enrolling.NewStore(e).Save(r.record); err != nil {
		t.Fatal(err)
	}
	other, err := keys(e).Generate(ctx, r.record.Options.Token, hsm.GenerateOptions{Label: "other"}, &typist{})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := keys(e).Import(ctx, other.URI, "prod-hsm", certificateOf(t, e, other.URI), &typist{}); !errors.Is(err,
		hsm.ErrKeyMismatch) {
		t.Errorf("for another key: %v", err)
	}
	release, err := e.Lock(ctx, "prod-hsm")
	if err != nil {
		t.Fatal(err)
	}
	own := certificateOf(t, e, r.record.Request.Key)
	if _, err := keys(e).Import(ctx, hsm.URI{}, "prod-hsm", own, &typist{}); err == nil ||
		errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("under a run that goes on: %v", err)
	}
	release()
	if j, err := enrolling.NewStore(e).Load("prod-hsm"); err != nil || len(j.Certificate) > 0 {
		t.Errorf("after the refusals: %q, %v", j.Certificate, err)
	}

	token.Fail(hsmtest.OpStoreCertificate, hsm.ErrUnsupported)
	if _, err := keys(e).Import(ctx, hsm.URI{}, "prod-hsm", own, &typist{}); err != nil {
		t.Errorf("on a token that stores none: %v", err)
	}
	if j, err := enrolling.NewStore(e).Load("prod-hsm"); err != nil || string(j.Certificate) != string(own) {
		t.Errorf("the record holds %q, %v", j.Certificate, err)
	}
}
