package doctor

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/audit"
)

// bundle returns the files of the machine's report.
func (m *machine) bundle() map[string]string {
	m.t.Helper()
	var b bytes.Buffer
	if _, err := Bundle(context.Background(), *m.Options, &b); err != nil {
		m.t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		m.t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			m.t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			m.t.Fatal(err)
		}
		files[f.Name] = string(content)
	}
	return files
}

// What is planted in every place that a report is made of does not leave, though
// nothing that is there now names it.
func TestBundleOfFormerNames(t *testing.T) {
	m := newMachine(t)
	m.fake.Add(hsmtest.FakeOptions{Label: "blue token", Serial: "5f0a17"})
	t.Setenv("HTTPS_PROXY", "http://proxyuser:proxypass@gateway.inner.corp:3128")
	m.file("kubeconfig", `apiVersion: v1
kind: Config
contexts: [{name: "o'brien & sons \"<zoe>\"", context: {cluster: c1, user: zq, namespace: wages}}, {name: "ok", context: {cluster: c1, user: zq}}]
clusters: [{name: c1, cluster: {server: "https://wages.inner.corp:6443"}}]
users: [{name: zq, user: {client-key: k.pem, client-certificate: c.pem}}]
`, 0o600)
	planted := map[string]string{ // text to look for → the line of the log that contains it
		"eyJhbGciOi":          "sent eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.c2lnbmF0dXJl",
		"0123456789abcdef":    "token abcdef.0123456789abcdef was refused",
		"MHcCAQEE":            `key="-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIcP\n-----END EC PRIVATE KEY-----\n"`,
		"KHSM1-":              "ticket KHSM1-AbCdEf_123-456",
		"opensesame":          "Authorization: Bearer opensesame123",
		"hunter2":             "PIN=hunter2 password: hunter2 pin-value=hunter2&x=1",
		"proxypass":           "proxyconnect http://proxyuser:proxypass@gateway.inner.corp:3128",
		"gateway":             "lookup gateway: no such host",
		"mary":                "mail to mary@inner.example and see /home/mary/.kube, C:\\Users\\mary\\x",
		"oldcorp":             `Get "https://api.oldcorp.internal:6443/version": lookup api.oldcorp.internal on 10.11.12.13:53: no such host`,
		"10.11.12":            "dial tcp 10.11.12.14:6443: i/o timeout",
		"fd00":                "dial tcp [fd00::1]:6443 and fd00::2: refused",
		"2001:db8":            "dial tcp [2001:db8::17]:443",
		"intranet":            "x509: certificate is valid for kubernetes, intranet, *.intranet.lan, not intranet2",
		"green":               "pkcs11:token=green%20card;serial=77aa99;object=key%20of%20green;type=private gone",
		"77aa99":              "piv:serial=77aa99;slot=9a gone",
		"gone-enroll":         "level=INFO msg=ready enrollment=gone-enroll-1",
		"brien":               `context "o'brien & sons \"<zoe>\"" and kubehsm kubeconfig migrate 'o'\''brien & sons "<zoe>"'`,
		" zq ":                "users zq zq here",
		"wages":               "pods in wages",
		"recorded.enrollment": "",
		"recorded.server":     "recorded.server:6443 again",
		"former token":        "",
		"feed1234":            "serial feed1234",
		"nginx-secret":        "",
	}
	var log strings.Builder
	for _, line := range planted {
		log.WriteString(line + "\n")
	}
	kept := "level=INFO why=asked at 127.0.0.1:4711, client.authentication.k8s.io/v1, /usr/lib/x86_64-linux-gnu/libsofthsm2.so.2.6, 10:42:07, v1.37.1"
	record, err := json.Marshal(audit.Record{Time: time.Now().UTC(), Event: audit.Consent, Outcome: audit.Granted,
		Enrollment: "recorded.enrollment", Server: "recorded.server:6443",
		Token:   hsm.URI{Scheme: hsm.SchemePKCS11, Token: "former token", Serial: "feed1234"},
		Request: "delete pods/nginx-secret", Statement: "delete nginx-secret",
		Policy: "rules: resources=nginx-secret"})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Repeat("filler\n", logLines) + log.String() + kept + "\n"
	if err := errors.Join(os.WriteFile(m.Env.Dirs.LogFile(), []byte(all), 0o600),
		os.WriteFile(audit.Path(m.Env.Dirs), append(record, '\n'), 0o600)); err != nil {
		t.Fatal(err)
	}
	files := m.bundle()
	for name, content := range files {
		for secret := range planted {
			if strings.Contains(content, secret) {
				t.Errorf("%s holds %q:\n%s", name, secret, content)
			}
		}
	}
	if !strings.Contains(files["agent.log"], kept) {
		t.Errorf("what names nobody is gone:\n%s", files["agent.log"])
	}
	if lines := strings.Count(files["agent.log"], "\n"); lines != logLines || files["README.txt"] == "" ||
		files["system.json"] == "" {
		t.Errorf("%d lines of the log, of %d files", lines, len(files))
	}
	if !strings.Contains(files["audit.jsonl"], `"event":"consent"`) {
		t.Errorf("no record: %s", files["audit.jsonl"])
	}
	var checks []Check
	if err := json.Unmarshal([]byte(files["checks.json"]), &checks); err != nil {
		t.Fatal(err)
	}
	m.expect(m.find(checks, "contexts"), OK, "2 contexts", "") // a context's name is no state
}
