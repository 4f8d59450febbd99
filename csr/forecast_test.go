package csr

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/test/must"
)

// site is what a forecast is asked about: paths and the JSON they are answered with.
type site struct {
	answers map[string]string
	date    time.Time
}

func (s site) serve(w http.ResponseWriter, r *http.Request) bool {
	if !s.date.IsZero() {
		w.Header().Set("Date", s.date.UTC().Format(http.TimeFormat))
	}
	for path, body := range s.answers {
		if r.URL.Path == path {
			w.Header().Set("Content-Type", "application/json")
			if body == "403" {
				w.WriteHeader(http.StatusForbidden)
				body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"details":{}}`
			}
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	return false
}

const (
	noBindings = `{"items":[]}`
	crbs       = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	rbs        = "/apis/rbac.authorization.k8s.io/v1/rolebindings"
	sar        = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	pods       = "/api/v1/namespaces/kube-system/pods"
)

// plainSite is a cluster that tells all it is asked, of which nothing is known.
func plainSite() site {
	return site{answers: map[string]string{
		"/version": `{"gitVersion":"v1.37.1"}`, crbs: noBindings, rbs: noBindings, pods: "403",
		sar: `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`,
	}}
}

func (s site) with(path, body string) site {
	s.answers[path] = body
	return s
}

// forecastOf asks for the forecast of p at s and returns its points by their IDs.
func forecastOf(t *testing.T, s site, p Prospect, prepare func(*fakeAPI)) map[string]Point {
	t.Helper()
	f := newFake(t)
	f.answer = s.serve
	if prepare != nil {
		prepare(f)
	}
	points, err := f.client().Forecast(t.Context(), p)
	must.OK(t, err)
	out := map[string]Point{}
	for _, p := range points {
		if p.Verdict != Unknown && p.Evidence == "" {
			t.Errorf("%s is %s without evidence: %s", p.ID, p.Verdict, p.Reason)
		}
		out[p.ID] = p
	}
	return out
}

// issuedTo puts a request with a certificate into the cluster.
func issuedTo(t *testing.T, f *fakeAPI, requester, user string, asked *int32, lifetime time.Duration) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: Subject{User: user}.Name(),
		NotBefore: time.Now(), NotAfter: time.Now().Add(lifetime),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.OK(t, err)
	f.put(&certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "earlier"},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: ClientSigner, Username: requester,
			ExpirationSeconds: asked},
		Status: certificatesv1.CertificateSigningRequestStatus{
			Certificate: pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der}),
		},
	})
}

func TestForecast(t *testing.T) {
	dev := Prospect{Subject: Subject{User: "jo", Groups: []string{"dev"}}}
	asks := func(change func(*Prospect)) Prospect { p := dev; change(&p); return p }
	year := int32(365 * 24 * 3600)
	for _, c := range []struct {
		name    string
		site    site
		p       Prospect
		prepare func(*fakeAPI)
		id      string
		want    Verdict
		words   string
	}{
		{"allowed", plainSite(), dev, nil, "create", OK, "may file"},
		{"may not create", plainSite(), dev, func(f *fakeAPI) { f.denied = []string{"create " + resource} }, "create", Warn, "printed for an admin"},
		{"may not get", plainSite(), dev, func(f *fakeAPI) { f.denied = []string{"get " + resource} }, "create", Warn, "but not get"},
		{"client signer", plainSite(), dev, nil, "signer", OK, ClientSigner},
		{"serving signer", plainSite(), asks(func(p *Prospect) { p.SignerName = "kubernetes.io/kubelet-serving" }), nil, "signer", Refuse, "no client certificates"},
		{"legacy signer", plainSite(), asks(func(p *Prospect) { p.SignerName = "kubernetes.io/legacy-unknown" }), nil, "signer", Refuse, "not served"},
		{"malformed signer", plainSite(), asks(func(p *Prospect) { p.SignerName = "nonsense" }), nil, "signer", Refuse, "domain/path"},
		{"custom signer", plainSite(), asks(func(p *Prospect) { p.SignerName = "example.com/own" }), nil, "signer", Unknown, "not known"},
		{"kubelet's signer", plainSite(), asks(func(p *Prospect) { p.SignerName = "kubernetes.io/kube-apiserver-client-kubelet" }), nil, "subject", Refuse, "system:nodes"},
		{"masters", plainSite(), asks(func(p *Prospect) { p.Subject.Groups = []string{"system:masters"} }), nil, "subject", Refuse, "system:masters"},
		{"reserved name", plainSite(), asks(func(p *Prospect) { p.Subject.User = "system:me" }), nil, "subject", Warn, "Kubernetes's own"},
		{"no name", plainSite(), asks(func(p *Prospect) { p.Subject.User = "" }), nil, "subject", Refuse, "empty"},
		{"server usage", plainSite(), asks(func(p *Prospect) {
			p.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth}
		}), nil, "usages", Refuse, "server auth"},
		{"encipherment with ECDSA", plainSite(), asks(func(p *Prospect) {
			p.Key = newKey(t).Public()
			p.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageKeyEncipherment}
		}), nil, "usages", Refuse, "makes no sense"},
		{"algorithm", plainSite(), asks(func(p *Prospect) { p.Key = newKey(t).Public() }), nil, "algorithm", OK, "ECDSA P-256"},
		{"too short", plainSite(), asks(func(p *Prospect) { p.Expiration = time.Minute }), nil, "lifetime", Refuse, "10 min"},
		{"cap not known", plainSite(), asks(func(p *Prospect) { p.Expiration = 3 * defaultCap }), nil, "lifetime", Unknown, "default is 1 y"},
		{"cap seen", plainSite(), asks(func(p *Prospect) { p.Expiration = 48 * time.Hour }),
			func(f *fakeAPI) { issuedTo(t, f, "a", "b", &year, time.Hour) }, "lifetime", Warn, "maximum is 1 h"},
		{"cap in the flags", plainSite().with(pods, `{"items":[{"metadata":{"name":"kcm"},"spec":{"containers":[{"command":["kube-controller-manager","--cluster-signing-duration=24h","--cluster-signing-key-file=/k"]}]}}]}`),
			asks(func(p *Prospect) { p.Expiration = time.Hour }), nil, "lifetime", OK, "24 h"},
		{"signs by its flags", plainSite().with(pods, `{"items":[{"metadata":{"name":"kcm"},"spec":{"containers":[{"command":["kube-controller-manager","--cluster-signing-key-file=/k"]}]}}]}`),
			dev, nil, "issues", OK, "signing key"},
		{"issued before", plainSite(), dev, func(f *fakeAPI) { issuedTo(t, f, "a", "b", nil, time.Hour) }, "issues", OK, "signs for"},
		{"EKS", plainSite().with("/version", `{"gitVersion":"v1.31.2-eks-7f9249a"}`), dev, nil, "issues", Refuse, "Amazon EKS"},
		{"EKS, where a request looks signed", plainSite().with("/version", `{"gitVersion":"v1.31.2-eks-7f9249a"}`), dev,
			func(f *fakeAPI) { issuedTo(t, f, "a", "b", nil, time.Hour) }, "issues", Refuse, "Amazon EKS"},
		{"EKS, another signer", plainSite().with("/version", `{"gitVersion":"v1.31.2-eks-7f9249a"}`),
			asks(func(p *Prospect) { p.SignerName = "example.com/own" }), nil, "issues", Unknown, "example.com/own"},
		{"EKS Anywhere, with the version of EKS", plainSite().with("/version", `{"gitVersion":"v1.31.2-eks-7f9249a"}`).
			with(pods,
				`{"items":[{"metadata":{"name":"kcm"},"spec":{"containers":[{"command":["kube-controller-manager","--cluster-signing-key-file=/k"]}]}}]}`),
			dev, nil, "issues", OK, "signing key"},
		{"EKS Distro", plainSite().with("/version", `{"gitVersion":"v1.29.1-eks-1-29-12"}`), dev, nil, "issues", Unknown, "cannot be seen"},
		{"k3s", plainSite().with("/version", `{"gitVersion":"v1.31.2+k3s1"}`), dev, nil, "issues", OK, "k3s"},
		{"GKE", plainSite().with("/version", `{"gitVersion":"v1.31.2-gke.100"}`), dev, nil, "issues", OK, "GKE"},
		{"some cluster", plainSite(), dev, nil, "issues", Unknown, "cannot be seen"},
		{"never signed", plainSite(), dev, func(f *fakeAPI) {
			f.put(&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "stuck"},
				Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: ClientSigner},
				Status: certificatesv1.CertificateSigningRequestStatus{
					Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
						Status: "True", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}}})
		}, "issues", Warn, "nothing seems to sign"},
		{"clock agrees", plainSite(), dev, nil, "clock", OK, "agrees"},
		{"clock slow", site{plainSite().answers, time.Now().Add(time.Hour)}, dev, nil, "clock", Warn, "behind"},
		{"clock fast", site{plainSite().answers, time.Now().Add(-time.Hour)}, dev, nil, "clock", Warn, "ahead"},
		{"I am it", plainSite(), asks(func(p *Prospect) { p.Subject.User = "jane" }), nil, "identity", OK, "you are jane"},
		{"nobody's", plainSite(), dev, nil, "identity", OK, "nobody else"},
		{"somebody's certificate", plainSite(), dev, func(f *fakeAPI) { issuedTo(t, f, "boss", "jo", nil, time.Hour) }, "identity", Warn, "boss holds"},
		{"mine from before", plainSite(), dev, func(f *fakeAPI) { issuedTo(t, f, "jane", "jo", nil, time.Hour) }, "identity", OK, "before"},
		{"somebody's rights", plainSite().with(crbs, `{"items":[{"metadata":{"name":"jo-admin"},"subjects":[{"kind":"User","name":"jo"}],"roleRef":{"kind":"ClusterRole","name":"view"}}]}`).
			with("/apis/rbac.authorization.k8s.io/v1/clusterroles/view",
				`{"rules":[]}`), dev, nil, "identity", Warn, "has rights already"},
		{"cannot be seen", plainSite().with(crbs, "403").with(rbs, "403").with(sar, "403"), dev, nil, "identity", Unknown, "cannot be seen"},
		{"attestation dropped", plainSite(), asks(func(p *Prospect) { p.Extension = true }), nil, "extension", OK, "drops"},
		{"attestation at another's", plainSite(), asks(func(p *Prospect) { p.Extension, p.SignerName = true, "example.com/own" }), nil, "extension", Unknown, "leave the attestation out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := forecastOf(t, c.site, c.p, c.prepare)[c.id]
			if !ok || got.Verdict != c.want || !strings.Contains(got.Reason, c.words) {
				t.Errorf("%+v, want %s with %q", got, c.want, c.words)
			}
		})
	}
}

// TestClusterKinds: what a server's name says of who made the cluster.
func TestClusterKinds(t *testing.T) {
	for host, want := range map[string]Verdict{
		"0A1B.gr7.eu-west-1.eks.amazonaws.com":        Refuse,
		"0A1B.gr7.EU-WEST-1.EKS.AMAZONAWS.COM":        Refuse,
		"0A1B.sk1.cn-north-1.eks.amazonaws.com.cn":    Refuse,
		"eks.amazonaws.com.example.org":               "",
		"prod-1a2b.hcp.westeurope.azmk8s.io":          Unknown,
		"1a2b.k8s.ondigitalocean.com":                 Unknown,
		"kubernetes.default.svc.eks.amazonaws.com.de": "",
	} {
		if k, _ := kindOf("v1.31.2", host); k.verdict != want {
			t.Errorf("%s: %q, want %q", host, k.verdict, want)
		}
	}
}

// TestForecastOfNothing: a cluster that answers nothing gives no verdict.
func TestForecastOfNothing(t *testing.T) {
	f := newFake(t)
	client := f.client()
	f.stop()
	points, err := client.Forecast(t.Context(), Prospect{Subject: Subject{User: "jo"}})
	must.OK(t, err)
	for _, p := range points {
		switch p.ID {
		case "create", "lifetime", "issues", "clock", "identity":
			if p.Verdict != Unknown {
				t.Errorf("%s is %s: %s", p.ID, p.Verdict, p.Reason)
			}
		}
	}
	if refused := Refused(points); len(refused) != 0 {
		t.Errorf("refused: %v", refused)
	}
}

func TestGrantsOf(t *testing.T) {
	s := plainSite().
		with(crbs, `{"items":[
			{"metadata":{"name":"a"},"subjects":[{"kind":"Group","name":"dev"}],"roleRef":{"kind":"ClusterRole","name":"cluster-admin"}},
			{"metadata":{"name":"b"},"subjects":[{"kind":"Group","name":"ops"}],"roleRef":{"kind":"ClusterRole","name":"edit"}},
			{"metadata":{"name":"c"},"subjects":[{"kind":"ServiceAccount","name":"jo"}],"roleRef":{"kind":"ClusterRole","name":"edit"}}]}`).
		with(rbs,
			`{"items":[{"metadata":{"name":"d","namespace":"n"},"subjects":[{"kind":"User","name":"jo"}],"roleRef":{"kind":"Role","name":"r"}}]}`)
	f := newFake(t)
	f.answer = s.serve
	subject := Subject{User: "jo", Groups: []string{"dev"}}
	g, err := f.client().Rights().GrantsOf(t.Context(), subject)
	if err != nil || len(g.List) != 2 || !g.Everything || len(g.Unknown) != 0 {
		t.Fatalf("%+v, %v", g, err)
	}
	if got := g.List[1].String(); got != "user jo has Role r in namespace n (binding d)" {
		t.Error(got)
	}
	// What may not be looked at is said, and nothing is claimed.
	f.answer = plainSite().with(crbs, "403").with(rbs, "403").with(sar, "403").serve
	if g, err = f.client().Rights().GrantsOf(t.Context(), subject); err != nil || len(g.Unknown) != 3 || g.Everything {
		t.Errorf("%+v, %v", g, err)
	}
	// The API server's word counts even if no binding shows.
	f.answer = plainSite().with(sar,
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`).serve
	if g, err = f.client().Rights().GrantsOf(t.Context(), subject); err != nil || !g.Everything {
		t.Errorf("%+v, %v", g, err)
	}
}
