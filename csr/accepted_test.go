package csr

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/test/must"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tlsServer is a server that asks for certificates of the authorities in the pool,
// and a transport that reaches it.
func tlsServer(t *testing.T, mode tls.ClientAuthType, pool *x509.CertPool) (*httptest.Server, *http.Transport) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{ClientAuth: mode, ClientCAs: pool}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, s.Client().Transport.(*http.Transport)
}

// TestForecastOfTheIssuer compares who signed the latest certificate with what the
// API server says that it accepts.
func TestForecastOfTheIssuer(t *testing.T) {
	own, twin := newAuthority(t), newAuthority(t) // two authorities with the same name
	other := &authority{key: newKey(t)}
	named := leafFor(Subject{User: "another"})
	named.IsCA, named.BasicConstraintsValid, named.KeyUsage = true, true, x509.KeyUsageCertSign
	other.cert = other.sign(t, other.key.Public(), named)
	pool := x509.NewCertPool()
	pool.AddCert(own.cert)
	published, err := json.Marshal(map[string]any{"data": map[string]string{"client-ca-file": string(asPEM(own.cert))}})
	must.OK(t, err)
	authorityMap := "/api/v1/namespaces/kube-system/configmaps/" + authenticationMap
	for name, c := range map[string]struct {
		mode   tls.ClientAuthType
		pool   *x509.CertPool
		site   site
		issuer *authority
		chain  *authority
		want   Verdict
	}{
		"none issued":           {tls.RequestClientCert, pool, plainSite(), nil, nil, Unknown},
		"own":                   {tls.RequestClientCert, pool, plainSite(), own, nil, OK},
		"own, by the ConfigMap": {tls.RequestClientCert, pool, plainSite().with(authorityMap, string(published)), own, nil, OK},
		"another":               {tls.RequestClientCert, pool, plainSite(), other, nil, Refuse},
		"of the same name":      {tls.RequestClientCert, pool, plainSite(), twin, nil, OK}, // names are all that the handshake tells
		"that, by ConfigMap":    {tls.RequestClientCert, pool, plainSite().with(authorityMap, string(published)), twin, nil, Refuse},
		"by an intermediate":    {tls.RequestClientCert, pool, plainSite(), other, own, OK},
		"no names":              {tls.RequestClientCert, nil, plainSite(), other, nil, OK},
		"not requested":         {tls.NoClientCert, nil, plainSite(), own, nil, Refuse},
	} {
		t.Run(name, func(t *testing.T) {
			server, transport := tlsServer(t, c.mode, c.pool)
			accepted, err := AskAccepted(t.Context(), transport, server.URL)
			must.OK(t, err)
			p := Prospect{Subject: Subject{User: "jo"}, Accepted: accepted}
			got := forecastOf(t, c.site, p, func(f *fakeAPI) {
				if c.issuer == nil {
					return
				}
				certificate := asPEM(c.issuer.sign(t, newKey(t).Public(), leafFor(Subject{User: "a"})))
				if c.chain != nil {
					certificate = append(certificate, asPEM(c.chain.sign(t, c.issuer.key.Public(), named))...)
				}
				f.put(&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "earlier"},
					Spec:   certificatesv1.CertificateSigningRequestSpec{SignerName: ClientSigner, Username: "a"},
					Status: certificatesv1.CertificateSigningRequestStatus{Certificate: certificate}})
			})["issuer"]
			if got.Verdict != c.want {
				t.Errorf("%+v, want %s", got, c.want)
			}
		})
	}
}

// TestAskAcceptedFails where nothing is learnt.
func TestAskAcceptedFails(t *testing.T) {
	server, transport := tlsServer(t, tls.RequestClientCert, nil)
	if _, err := AskAccepted(t.Context(), transport, "http"+server.URL[len("https"):]); err == nil {
		t.Error("an address without TLS tells")
	}
	server.Close()
	if _, err := AskAccepted(t.Context(), transport, server.URL); !errors.Is(err, apierror.ErrUnreachable) {
		t.Errorf("a server that is away: %v", err)
	}
}
