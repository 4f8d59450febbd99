package approver

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// TestRevokes: a Revocation counts for a certificate if it names it with its key, for as long as it is good.
func TestRevokes(t *testing.T) {
	at := func(hours int) metav1.Time {
		return metav1.NewTime(time.Unix(1_900_000_000, 0).Add(time.Duration(hours) * time.Hour))
	}
	lost := clusterapi.TokenCertificate{Certificate: "a", Key: "k", NotAfter: at(0)}
	same, later, earlier := at(0), at(1), at(-1)
	for name, c := range map[string]struct {
		named clusterapi.RevokedCertificate
		want  bool
	}{
		"it":                   {clusterapi.RevokedCertificate{Fingerprint: "a", Key: "k", NotAfter: &same}, true},
		"it, for longer":       {clusterapi.RevokedCertificate{Fingerprint: "a", Key: "k", NotAfter: &later}, true},
		"it, for ever":         {clusterapi.RevokedCertificate{Fingerprint: "a", Key: "k"}, true},
		"it, for less":         {clusterapi.RevokedCertificate{Fingerprint: "a", Key: "k", NotAfter: &earlier}, false},
		"it, without its key":  {clusterapi.RevokedCertificate{Fingerprint: "a", NotAfter: &same}, false},
		"another of its key":   {clusterapi.RevokedCertificate{Fingerprint: "b", Key: "k", NotAfter: &same}, false},
		"it, with another key": {clusterapi.RevokedCertificate{Fingerprint: "a", Key: "l"}, false},
	} {
		spec := clusterapi.RevocationSpec{Certificates: []clusterapi.RevokedCertificate{{Fingerprint: "z"}, c.named}}
		if got := revokes(spec, lost); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
