package enroll

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// certificateFor is one for user, good from then to then.
func certificateFor(t *testing.T, e *env.Env, u hsm.URI, user string, from, to time.Time) []byte {
	t.Helper()
	ctx := context.Background()
	token, err := e.Drivers.Open(ctx, u)
	must.OK(t, err)
	defer token.Close()
	signer, err := token.Signer(ctx, u, nil, &typist{})
	must.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user}, NotBefore: from,
		NotAfter: to,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	must.OK(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
