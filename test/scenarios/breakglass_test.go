//go:build linux

package scenarios

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

func softwareKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	return key
}

// The whole of it: asked for by one, refused to be approved by the same, approved
// by another, used with kubectl.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{Groups: []string{"kubehsm:break-glass-requesters", "kubehsm:break-glass-approvers",
		unique("on-call")}})
	res := u.ran(u.Kubehsm(t.Context(), "breakglass", "request", "--yes"))
	u.wantFailure(res, 2, "--reason", "no reason")
	if res := u.ran(u.Kubehsm(t.Context(), "breakglass", "request", "--reason", "x", "--lifetime", "2h",
		"--yes")); res.Code == 0 {
		t.Error("two hours were asked for")
	}
	s := u.terminal(u.Binary, "breakglass", "request", "--reason", "the API is down", "--lifetime", "20m", "--yes")
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("waiting for somebody to approve")
	admin := u.newDesk("")
	request := ""
	for _, r := range parse[requests](t, admin.ok("csr", "list", "--pending", "-o", "json")).Requests {
		if strings.Contains(u.admin("get", "csr", r.Name, "-o", "jsonpath={.metadata.annotations}"), "the API is down") {
			request = r.Name
		}
	}
	if request == "" {
		t.Fatal("no request")
	}
	own := u.ran(u.Kubehsm(t.Context(), "breakglass", "approve", request, "--yes"))
	if own.Code != 1 || !strings.Contains(own.Stderr, "is your own") {
		t.Errorf("one's own: %s", own)
	}
	if own := u.ran(u.Kubectl(t.Context(), "certificate", "approve", request)); own.Code == 0 ||
		!strings.Contains(own.Stderr, "approved by a second person") {
		t.Errorf("one's own, with kubectl: %s", own)
	}
	bob := u.newDesk(unique("bob"), "kubehsm:break-glass-approvers")
	if res := bob.run("breakglass", "approve", request, "--yes"); res.Code != 5 ||
		!strings.Contains(res.Stderr, "it has warnings, and nobody has answered them") {
		t.Errorf("a yes for everything: %s", res)
	}
	bob.ok("breakglass", "approve", request, "--words", bob.words(request), "--yes")
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Screen())
	}
	if out := u.kubectl("--context", lab.Context+"-break-glass", "auth", "can-i", "*",
		"*"); strings.TrimSpace(out) != "yes" {
		t.Errorf("can do everything: %s", out)
	}
	if out := u.kubectl("config", "current-context"); strings.TrimSpace(out) != lab.Context {
		t.Errorf("the current context is %q", out)
	}
	list := parse[struct {
		BreakGlass []struct {
			State    string
			NotAfter time.Time
		}
	}](t, u.kubehsm("breakglass", "list", "-o", "json"))
	if len(list.BreakGlass) != 1 || list.BreakGlass[0].State != "live" ||
		time.Until(list.BreakGlass[0].NotAfter) > 21*time.Minute {
		t.Errorf("the list: %+v", list)
	}
}

// The policy holds without kubehsm's help: whatever the form of the request.
func TestBreakGlassPolicy(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	admin := u.newDesk("")
	bob := u.newDesk(unique("bob"), "kubehsm:break-glass-approvers")
	for what, tc := range map[string]struct {
		reason   string
		lifetime time.Duration
		group    string
		refused  string
	}{
		"as long as the signer gives": {"x", 0, "kubehsm:break-glass", "one hour at most"},
		"two hours":                   {"x", 2 * time.Hour, "kubehsm:break-glass", "one hour at most"},
		"no reason":                   {" ", time.Hour, "kubehsm:break-glass", "gives its reason"},
		"all right":                   {"x", time.Hour, "kubehsm:break-glass", ""},
		"another group":               {"", 0, "kubehsm:break-glassy", ""},
	} {
		for _, user := range []string{"j", "ja", "jan"} {
			name := unique("request")
			res := admin.kubectl(requestFor(t, name, user, tc.reason, tc.lifetime, tc.group), "create", "-f", "-")
			if (res.Code == 0) != (tc.refused == "") || !strings.Contains(res.Stderr, tc.refused) {
				t.Errorf("%s, user %s: %s", what, user, res)
			}
			if res.Code != 0 {
				continue
			}
			by := bob.kubectl("", "certificate", "approve", name)
			if guarded := tc.group != "kubehsm:break-glassy"; (by.Code == 0) != guarded {
				t.Errorf("%s, user %s, approved by bob: %s", what, user, by)
			}
		}
	}
	group := pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "kubehsm:break-glass"}
	dev := pkix.AttributeTypeAndValue{Type: group.Type, Value: "dev"}
	unit := pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 11}, Value: group.Value}
	user := pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "jane"}
	whole, err := asn1.Marshal(pkix.RDNSequence{{group}})
	must.OK(t, err)
	ofGroup, ofDev := requestBy(t, softwareKey(t), pkix.RDNSequence{{group}, {user}}, nil), requestBy(t, softwareKey(t), pkix.RDNSequence{{dev}, {user}}, nil)
	for what, request := range map[string][]byte{
		"a unit":                 requestBy(t, softwareKey(t), pkix.RDNSequence{{unit}, {user}}, nil),
		"a unit, after a group":  requestBy(t, softwareKey(t), pkix.RDNSequence{{dev}, {unit}, {user}}, nil),
		"a part of the user":     requestBy(t, softwareKey(t), pkix.RDNSequence{{{Type: user.Type, Value: string(whole)}}}, nil),
		"an extension":           requestBy(t, softwareKey(t), pkix.RDNSequence{{dev}, {user}}, whole),
		"PEM that nobody reads":  append(bytes.Replace(ofGroup, []byte("BEGIN "), []byte("BEGIN"), 1), ofDev...),
		"PEM that comes after":   append(ofDev, ofGroup...),
		"a group after another":  requestBy(t, softwareKey(t), pkix.RDNSequence{{dev}, {group}, {user}}, nil),
		"a group after the user": requestBy(t, softwareKey(t), pkix.RDNSequence{{user}, {group}}, nil),
	} {
		name := unique("request")
		res := admin.kubectl(requestOf(name, "x", time.Hour, request), "create", "-f", "-")
		by := bob.kubectl("", "certificate", "approve", name)
		if res.Code != 0 || by.Code == 0 || !strings.Contains(by.Stderr, "what kubehsm breakglass request makes") {
			t.Errorf("%s: %s; approved: %s", what, res, by)
		}
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must.OK(t, err)
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	for _, key := range []crypto.Signer{ed, softwareKey(t), wide, long} { // the lengths before the group take 10 to 13 bytes
		name := unique("request")
		request, err := csr.NewRequest(key, csr.Subject{User: "jane", Groups: []string{"kubehsm:break-glass"}}, csr.RequestOptions{})
		must.OK(t, err)
		res := admin.kubectl(requestOf(name, "x", time.Hour, request), "create", "-f", "-")
		if by := bob.kubectl("", "certificate", "approve", name); res.Code != 0 || by.Code != 0 {
			t.Errorf("%T: %s; approved: %s", key, res, by)
		}
	}
	for _, filer := range []string{"system:bootstrap:abcdef", "system:serviceaccount:kubehsm-system:kubehsm-joiner"} {
		name := unique("request")
		res := admin.kubectl(requestFor(t, name, "bob", "x", time.Hour, "kubehsm:break-glass"), "create", "--as", filer,
			"--as-group", "system:masters", "-f", "-")
		by := bob.kubectl("", "certificate", "approve", name)
		if res.Code != 0 || by.Code == 0 || !strings.Contains(by.Stderr, "filed by a person") {
			t.Errorf("filed by %s: %s; approved: %s", filer, res, by)
		}
	}
	for _, user := range []string{"j", "ja", "jan"} {
		for _, end := range []string{"", "\x00\x00"} { // the API server reads a BMPString without a zero at its end
			request := inBMPString(t, user, "kubehsm:break-glass", end)
			res := admin.kubectl(requestOf(unique("request"), "x", 0, request), "create", "-f", "-")
			if res.Code == 0 || !strings.Contains(res.Stderr, "one hour at most") {
				t.Errorf("a BMPString that ends with %q, user %s: %s", end, user, res)
			}
			padded := append(request, strings.Repeat("\n", 16<<10)...)
			res = admin.kubectl(requestOf(unique("request"), "x", 0, padded), "create", "-f", "-")
			if res.Code == 0 || !strings.Contains(res.Stderr, "16 KiB at most") {
				t.Errorf("a padded request, user %s: %s", user, res)
			}
		}
	}
	largest := append(ofDev, strings.Repeat("\n", 16<<10-len(ofDev))...)
	began := time.Now()
	if res := admin.kubectl(requestOf(unique("request"), "", 0, largest), "create", "-f", "-"); res.Code != 0 {
		t.Errorf("the largest request: %s", res)
	}
	t.Logf("the largest request took %s", time.Since(began).Round(time.Millisecond))
}

// inBMPString is a PKCS#10 whose group is a BMPString, with end after it.
func inBMPString(t testing.TB, user, group, end string) []byte {
	t.Helper()
	var wide []byte
	for _, c := range []byte(group) {
		wide = append(wide, 0, c)
	}
	return requestBy(t, softwareKey(t), pkix.RDNSequence{
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: asn1.RawValue{Tag: asn1.TagBMPString, Bytes: append(wide, end...)}}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: user}}}, nil)
}

// requestBy is a PKCS#10 of any subject, with an extension of no meaning if there is one.
func requestBy(t testing.TB, key crypto.Signer, subject pkix.RDNSequence, extension []byte) []byte {
	t.Helper()
	template := &x509.CertificateRequest{}
	if extension != nil {
		template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Value: extension}}
	}
	var err error
	template.RawSubject, err = asn1.Marshal(subject)
	must.OK(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	must.OK(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
