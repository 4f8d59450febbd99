package bridgetest

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// approver issues what is asked for.
type approver struct {
	t      testing.TB
	life   time.Duration
	reason string
	filed  []*certificatesv1.CertificateSigningRequest
}

// Approve has the stand-in serve certificate requests from now on. It approves them for reason by
// itself, or leaves them pending where reason is "", and issues certificates for life.
func (s *Server) Approve(t testing.TB, life time.Duration, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.approver = &approver{t: t, life: life, reason: reason}
}

// Filed are the certificate requests that were filed.
func (s *Server) Filed() []*certificatesv1.CertificateSigningRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*certificatesv1.CertificateSigningRequest(nil), s.approver.filed...)
}

// requests serves certificate requests, if r is about them.
func (s *Server) requests(w http.ResponseWriter, r *http.Request) bool {
	const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.approver
	if a == nil || !strings.HasPrefix(r.URL.Path, path) {
		return false
	}
	answer := func(code int, v any) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(v); err != nil {
			a.t.Error(err)
		}
		return true
	}
	if r.Method == http.MethodPost {
		obj := &certificatesv1.CertificateSigningRequest{}
		if err := json.NewDecoder(r.Body).Decode(obj); err != nil {
			a.t.Error(err)
		}
		obj.UID, obj.ResourceVersion, obj.CreationTimestamp = types.UID(obj.Name+"-uid"), "1", metav1.Now()
		obj.Spec.Username = r.TLS.PeerCertificates[0].Subject.CommonName
		a.filed = append(a.filed, obj)
		if a.reason != "" {
			s.sign(obj)
		}
		return answer(http.StatusCreated, obj)
	}
	for _, obj := range a.filed {
		if r.URL.Path == path+"/"+obj.Name {
			return answer(http.StatusOK, obj)
		}
	}
	// a list, and a watch of it, are not allowed
	return answer(http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden})
}

// sign approves and issues what obj asks for. s.mu is held.
func (s *Server) sign(obj *certificatesv1.CertificateSigningRequest) {
	a := s.approver
	block, _ := pem.Decode(obj.Spec.Request)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		a.t.Error(err)
		return
	}
	cert := s.issue(a.t, asked.PublicKey, asked.Subject, a.life)
	obj.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: a.reason}}
	obj.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}
