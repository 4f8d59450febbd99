package renewing

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// stage is an enrollment and a cluster that holds one request at a time.
type stage struct {
	t     *testing.T
	store enrollment.Store
	e     enrollment.Enrollment
	key   *ecdsa.PrivateKey
	chain []*x509.Certificate
	life  time.Duration
	age   time.Duration // age of a certificate when it is issued

	decide  func(*certificatesv1.CertificateSigningRequest)
	obj     *certificatesv1.CertificateSigningRequest
	status  int // the cluster's answer in place of all others
	created int
	signErr error
	swapErr error
	told    []string
	r       *Renewer
}

func newStage(t *testing.T) *stage {
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: t.TempDir()}[k] })
	check(t, err)
	check(t, dirs.Prepare())
	s := &stage{t: t, store: enrollment.NewStore(dirs), life: 10 * time.Minute}
	s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	hash, err := hsm.Fingerprint(s.key.Public())
	check(t, err)
	s.e = enrollment.Enrollment{Name: "prod", User: "jane", Groups: []string{"dev"}, KeyHash: hash, Created: time.Now(),
		Key: hsm.URI{Scheme: hsm.SchemePIV, Serial: "7", Slot: "9a"}, Cluster: cluster.Cluster{Server: "https://api.test"}}
	check(t, s.store.Save(s.e))
	s.chain = []*x509.Certificate{s.certificate()}
	s.know(func(k *enrollment.Renewal) { k.Approver, k.Expiration = judge.ReasonTicket, s.life })
	s.r = &Renewer{Store: s.store, Log: slog.New(slog.DiscardHandler), Ended: func(_ enrollment.Enrollment, err error, failed bool) {
		s.told = append(s.told, fmt.Sprint(err, " ", failed))
	}}
	s.decide = s.issues(judge.ReasonRenewal)
	return s
}

func (s *stage) certificate() *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:   pkix.Name{CommonName: "jane", Organization: []string{"dev"}},
		NotBefore: time.Now().Add(-s.age), NotAfter: time.Now().Add(s.life), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		&x509.Certificate{Subject: pkix.Name{CommonName: "CA"}}, s.key.Public(), s.key)
	check(s.t, err)
	c, err := x509.ParseCertificate(der)
	check(s.t, err)
	return c
}

// issues approves a request for that reason, and signs it.
func (s *stage) issues(reason string) func(*certificatesv1.CertificateSigningRequest) {
	return func(obj *certificatesv1.CertificateSigningRequest) {
		obj.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reason}}
		obj.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.certificate().Raw})
	}
}

func denies(obj *certificatesv1.CertificateSigningRequest) {
	obj.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: judge.ReasonHorizon, Message: "it was until spring"}}
}

func (s *stage) know(f func(*enrollment.Renewal)) {
	s.t.Helper()
	known, err := s.store.Renewals().Load(s.e)
	check(s.t, err)
	f(&known)
	check(s.t, s.store.Renewals().Save(s.e.Name, known))
}

func (s *stage) known() enrollment.Renewal {
	s.t.Helper()
	known, err := s.store.Renewals().Load(s.e)
	check(s.t, err)
	return known
}

// RoundTrip is the cluster.
func (s *stage) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(code int, v any) (*http.Response, error) {
		b, err := json.Marshal(v)
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(bytes.NewReader(b)), Request: r}, err
	}
	refuse := func(code int, reason metav1.StatusReason) (*http.Response, error) {
		return answer(code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
			Code: int32(code), Reason: reason, Message: string(reason), Details: &metav1.StatusDetails{Kind: "certificatesigningrequests"}})
	}
	switch {
	case s.status != 0:
		return refuse(s.status, metav1.StatusReasonForbidden)
	case r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "certificatesigningrequests"): // may I?
		return refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodPost:
		s.obj = &certificatesv1.CertificateSigningRequest{}
		check(s.t, json.NewDecoder(r.Body).Decode(s.obj))
		s.created++
		s.obj.UID, s.obj.ResourceVersion = types.UID(fmt.Sprint("uid-", s.created)), "1"
		s.obj.CreationTimestamp = metav1.Now()
		filed := s.obj.DeepCopy()
		if s.decide != nil {
			s.decide(s.obj)
		}
		return answer(http.StatusCreated, filed)
	case r.URL.Query().Has("watch"):
		return refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	case s.obj == nil || !strings.HasSuffix(r.URL.Path, "/"+s.obj.Name):
		return refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
	return answer(http.StatusOK, s.obj)
}

func (s *stage) way() Way {
	return Way{Key: s.e, Chain: s.chain,
		Client: func() (*csr.Client, error) {
			return csr.NewClient(&rest.Config{Host: s.e.Cluster.Server, Transport: s})
		},
		Signer: func(context.Context) (crypto.Signer, error) { return s.key, s.signErr },
		Swap: func(_ context.Context, c *csr.Certificate) error {
			if s.swapErr == nil {
				s.chain = []*x509.Certificate{c.Leaf}
			}
			return s.swapErr
		}}
}

// sweep does what the agent does now and then.
func (s *stage) sweep(ctx context.Context) (begun bool) {
	done, ok := s.r.Begin(s.e, s.chain, time.Now())
	if ok {
		s.r.Renew(ctx, s.way())
		done()
	}
	return ok
}

// TestRenew: two renewals in a row, each in time, with the certificate that is the present one then.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		for i := range 2 {
			present := s.chain[0]
			if s.sweep(t.Context()) {
				t.Error("renewed at once")
			}
			time.Sleep(7 * time.Minute)
			if !s.sweep(t.Context()) || s.created != i+1 || s.chain[0].Equal(present) {
				t.Fatalf("after 7 minutes: %d requests, %v", s.created, s.told)
			}
			sum := sha256.Sum256(s.obj.Spec.Request)
			text := base64.StdEncoding.EncodeToString(present.Raw)
			if s.obj.Annotations[clusterapi.PresentCertificate] != text || *s.obj.Spec.ExpirationSeconds != 600 {
				t.Errorf("request %x: %+v", sum[:4], s.obj)
			}
		}
		if k := s.known(); k.Approver != judge.ReasonRenewal || k.Request != nil || k.Expiration != 10*time.Minute ||
			fmt.Sprint(s.told) != "[<nil> false <nil> false]" {
			t.Errorf("on record: %+v, told %v", k, s.told)
		}
	})
}

// TestNearTheHorizon: what asked for longer than the token's horizon is asked for once more, for what the denial offers.
// The usual lifetime stays on record.
func TestNearTheHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.life = time.Hour
		s.chain = []*x509.Certificate{s.certificate()}
		s.know(func(k *enrollment.Renewal) { k.Expiration = s.life })
		s.decide = func(obj *certificatesv1.CertificateSigningRequest) {
			if *obj.Spec.ExpirationSeconds > 25*60 {
				denies(obj)
				obj.Status.Conditions[0].Message = "the horizon is in 26 min; it may ask for 25m0s"
				return
			}
			s.issues(judge.ReasonRenewal)(obj)
		}
		time.Sleep(45 * time.Minute)
		if !s.sweep(t.Context()) || s.created != 2 || fmt.Sprint(s.told) != "[<nil> false]" || s.known().Expiration != s.life {
			t.Errorf("%d requests, told %v, on record %+v", s.created, s.told, s.known())
		}
	})
}

// TestNotUnasked: nothing is filed where it is not known that the cluster approves by itself, where a person
// goes on with a renewal, or where it is switched off.
func TestNotUnasked(t *testing.T) {
	for name, set := range map[string]func(*stage, *enrollment.Renewal){
		"unknown":     func(_ *stage, k *enrollment.Renewal) { k.Approver = "" },
		"by a person": func(_ *stage, k *enrollment.Renewal) { k.Approver = judge.ReasonPerson },
		"in their hands": func(_ *stage, k *enrollment.Renewal) {
			k.Request = &enrollment.RenewalRequest{Name: "x", ByPerson: true}
		},
		"another key's":    func(_ *stage, k *enrollment.Renewal) { k.KeyHash = strings.Repeat("0", 64) },
		"off":              func(s *stage, _ *enrollment.Renewal) { s.r.Off = true },
		"another issuer's": func(s *stage, _ *enrollment.Renewal) { s.e.Issuer = "CN=company" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.know(func(k *enrollment.Renewal) { set(s, k) })
				time.Sleep(9 * time.Minute)
				if s.sweep(t.Context()) || s.created != 0 {
					t.Errorf("begun, %d requests", s.created)
				}
			})
		})
	}
}

// TestNoLoop: a signer that backdates for longer than its certificates last, and a clock that is ahead, do not
// have every look at the certificate renew it.
func TestNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.age = 50 * time.Minute
		s.chain = []*x509.Certificate{s.certificate()}
		for range 40 { // ten minutes
			s.sweep(t.Context())
			time.Sleep(15 * time.Second)
		}
		if s.created != 2 {
			t.Errorf("%d requests in ten minutes, want 2", s.created)
		}
	})
}

// TestGoesOn: an agent that ends while its request is not decided goes on with that one.
func TestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.decide = nil
		time.Sleep(7 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.sweep(ctx)
		k := s.known()
		if s.created != 1 || k.Request == nil || k.Request.UID != "uid-1" || k.Failure != "" || len(s.told) != 0 {
			t.Fatalf("%d requests, on record %+v, told %v", s.created, k, s.told)
		}
		s.issues(judge.ReasonRenewal)(s.obj)
		s.r = &Renewer{Store: s.store, Log: s.r.Log, Ended: s.r.Ended}
		if !s.sweep(t.Context()) || s.created != 1 || fmt.Sprint(s.told) != "[<nil> false]" {
			t.Errorf("%d requests, told %v", s.created, s.told)
		}
	})
}

// TestFailures: what came to nothing is told once, and tried again a day later at the soonest; what is
// temporary is tried again soon.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*stage)
		words string
		final bool
		kept  bool // the request is gone on with
	}{
		"denied":           {func(s *stage) { s.decide = denies }, "it was until spring", true, false},
		"left to a person": {func(s *stage) { s.decide = nil }, "not approved within ten minutes", true, true},
		"may not file":     {func(s *stage) { s.status = http.StatusForbidden }, "forbidden", true, true},
		"not accepted":     {func(s *stage) { s.swapErr = errors.New("rejected") }, "rejected", false, true},
		"locked":           {func(s *stage) { s.signErr = hsm.ErrPINRequired }, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.life = 9 * 24 * time.Hour
				s.chain[0] = s.certificate()
				c.set(s)
				time.Sleep(time.Until(time.Date(2000, 1, 7, 9, 0, 0, 0, time.Local))) // a Friday
				if !s.sweep(t.Context()) {
					t.Fatal("not begun")
				}
				k, told := s.known(), fmt.Sprint(s.told)
				if c.words != "" && (len(s.told) != 1 || !strings.Contains(strings.ToLower(told), c.words)) || c.words == "" && len(s.told) != 0 {
					t.Errorf("told %v", told)
				}
				if (k.Failure != "") != c.final || (k.Request != nil) != c.kept {
					t.Errorf("on record: %+v", k)
				}
				created := s.created
				time.Sleep(2 * time.Minute)
				if s.sweep(t.Context()) == c.final {
					t.Errorf("two minutes later: begun %t", !c.final)
				}
				if !c.final {
					return
				}
				time.Sleep(time.Until(time.Date(2000, 1, 8, 12, 0, 0, 0, time.Local)))
				s.status, s.swapErr = 0, nil
				if s.obj != nil && c.kept {
					s.issues(judge.ReasonRenewal)(s.obj)
				}
				s.decide = s.issues(judge.ReasonRenewal)
				s.chain[0].NotAfter = time.Now().Add(24 * time.Hour) // the certificate ends before Monday
				if !s.sweep(t.Context()) || s.known().Failure != "" || c.kept && created == 1 && s.created != 1 {
					t.Errorf("a day later: %+v, %d requests", s.known(), s.created)
				}
			})
		})
	}
}

// TestDeclined: who declines to touch the token is left alone for four hours, or a third of what is left of the
// certificate's life; what the cluster refuses is told as ever.
func TestDeclined(t *testing.T) {
	for name, c := range map[string]struct {
		life, pause time.Duration
		err         error
	}{
		"long":    {9 * 24 * time.Hour, 4 * time.Hour, hsm.ErrTouchTimeout},
		"short":   {9 * time.Hour, 59 * time.Minute, hsm.ErrCancelled},
		"minutes": {30 * time.Minute, 3 * time.Minute, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				time.Sleep(time.Until(time.Date(2000, 1, 19, 9, 0, 0, 0, time.Local).Add(-c.life * 2 / 3))) // to a Wednesday
				s.life = c.life
				s.chain[0] = s.certificate()
				time.Sleep(c.life*2/3 + time.Minute)
				ask := func(err error) (asked bool, goOn func(context.Context)) {
					done, ok := s.r.Begin(s.e, s.chain, time.Now())
					if !ok {
						return false, nil
					}
					defer done()
					s.signErr = err
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if errors.Is(err, context.DeadlineExceeded) {
						cancel()
					}
					return true, s.r.Ask(ctx, s.way(), time.Now())
				}
				if asked, goOn := ask(c.err); !asked || goOn != nil {
					t.Fatalf("asked: %t", asked)
				}
				time.Sleep(c.pause - time.Minute)
				if asked, _ := ask(c.err); asked {
					t.Error("asked again soon")
				}
				time.Sleep(2 * time.Minute)
				asked, goOn := ask(nil)
				if !asked || goOn == nil {
					t.Fatalf("later: asked %t", asked)
				}
				goOn(t.Context())
				if k := s.known(); k.Failure != "" || fmt.Sprint(s.told) != "[<nil> false]" || s.created != 1 {
					t.Errorf("%+v, told %v, %d requests", k, s.told, s.created)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.status = http.StatusForbidden
		time.Sleep(7 * time.Minute)
		if _, ok := s.r.Begin(s.e, s.chain, time.Now()); !ok {
			t.Fatal("not due")
		}
		if goOn := s.r.Ask(t.Context(), s.way(), time.Now()); goOn != nil || s.known().Failure == "" || len(s.told) != 1 {
			t.Errorf("refused: %+v, told %v", s.known(), s.told)
		}
	})
}
