package csr

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/test/must"
)

func TestSpecObject(t *testing.T) {
	data := newPEM(t, newKey(t), Subject{User: "jane"})
	s := Spec{Name: "a", Request: data, Expiration: time.Hour, Reason: "laptop", Labels: map[string]string{"l": "v"},
		Annotations: map[string]string{"n": "v"}}
	obj, err := s.Object()
	must.OK(t, err)
	if obj.Spec.SignerName != ClientSigner || *obj.Spec.ExpirationSeconds != 3600 || obj.Labels["l"] != "v" ||
		obj.Annotations[ReasonAnnotation] != "laptop" || obj.Annotations["n"] != "v" {
		t.Errorf("got %+v", obj)
	}
	if len(s.Annotations) != 1 {
		t.Error("the caller's annotations were changed")
	}
	if want := []certificatesv1.KeyUsage{"digital signature", "client auth"}; !slices.Equal(obj.Spec.Usages, want) {
		t.Errorf("usages %q", obj.Spec.Usages)
	}
	rsa, err := Spec{Name: "a", Request: newPEM(t, rsaKey(t, 2048), Subject{User: "jane"})}.Object()
	if err != nil || !slices.Contains(rsa.Spec.Usages, "key encipherment") || rsa.Spec.ExpirationSeconds != nil {
		t.Errorf("RSA: %+v, %v", rsa, err)
	}
}

func TestSpecRefuses(t *testing.T) {
	data := newPEM(t, newKey(t), Subject{User: "jane"})
	masters, err := NewRequest(newKey(t), Subject{User: "a", Groups: []string{mastersGroup}},
		RequestOptions{SignerName: "example.com/own"})
	must.OK(t, err)
	for name, s := range map[string]Spec{
		"no name":         {Request: data},
		"bad name":        {Name: "A_b", Request: data},
		"path as name":    {Name: "a/b", Request: data},
		"short":           {Name: "a", Request: data, Expiration: 599 * time.Second},
		"negative":        {Name: "a", Request: data, Expiration: -time.Hour},
		"long":            {Name: "a", Request: data, Expiration: (math.MaxInt32 + 1) * time.Second},
		"signer":          {Name: "a", Request: data, SignerName: "nosuch"},
		"signer, no dot":  {Name: "a", Request: data, SignerName: "a/b"},
		"signer, no path": {Name: "a", Request: data, SignerName: "example.com/"},
		"no client auth":  {Name: "a", Request: data, Usages: []certificatesv1.KeyUsage{"digital signature"}},
		"EC encipherment": {Name: "a", Request: data, Usages: []certificatesv1.KeyUsage{"client auth", "key encipherment"}},
		"masters":         {Name: "a", Request: masters},
	} {
		var input *InputError
		if _, err := s.Object(); !errors.As(err, &input) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	own := Spec{Name: "a", Request: masters, SignerName: "example.com/own",
		Usages: []certificatesv1.KeyUsage{"server auth"}}
	if _, err := own.Object(); err != nil {
		t.Errorf("another signer has its own rules: %v", err)
	}
}

func TestRequestName(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	hash := strings.Repeat("0123456789abcdef", 4)
	for user, want := range map[string]string{
		"jane":                          "jane-01234567-",
		"Jane.Doe@Example.com":          "jane-doe-example-com-01234567-",
		"--system:node:x--":             "system-node-x-01234567-",
		"\u0438\u0432\u0430\u043d":      "01234567-",
		strings.Repeat("long-name.", 9): "long-name-long-name-long-name-01234567-",
	} {
		a, b := RequestName(user, hash), RequestName(user, hash)
		want = strings.ReplaceAll(want, "--", "-")
		if !strings.HasPrefix(a, want) || !label.MatchString(a) {
			t.Errorf("%q gives %q, want prefix %q", user, a, want)
		}
		if a == b {
			t.Errorf("%q twice", a)
		}
	}
}

func TestAdminCommand(t *testing.T) {
	s := Spec{Name: "a", Request: newPEM(t, newKey(t), Subject{User: "jane"}), Reason: "x\nEOF\n$(id) `id`",
		Expiration: time.Hour}
	text, err := AdminCommand(s)
	must.OK(t, err)
	if !strings.HasPrefix(text, "kubectl apply -f - <<'EOF'\n") ||
		!strings.HasSuffix(text, "\nEOF\nkubectl certificate approve a\n") {
		t.Errorf("got %s", text)
	}
	if strings.Count(text, "\nEOF\n") != 1 {
		t.Errorf("the reason ends the document early:\n%s", text)
	}
	if _, err := AdminCommand(Spec{Name: "a"}); err == nil {
		t.Error("a spec without a request was accepted")
	}
}
