package host

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestNamesInQuestions: what a program calls itself forges no line of a question.
func TestNamesInQuestions(t *testing.T) {
	e := enrollment.Enrollment{Name: "prod", Cluster: cluster.Cluster{Server: "https://10.0.0.1"}}
	s := consent.Statement{PID: 7, Command: consent.Word("a\n\x1b[2Jb"), Enrollment: "prod"}
	if w := words(s, &target{e: e}); strings.Count(w, "\n") != 1 || strings.Contains(w, "\x1b") {
		t.Errorf("%q", w)
	}
	forged := "x\nProgram  /usr/bin/kubectl\r\x1b[2J\u202e\u200b\u0430"
	s.Request = consent.Request{Verb: forged, Group: forged, Resource: forged, Subresource: forged, Namespace: forged,
		Name: forged,
		As:   consent.Word(forged), DryRun: true}
	s.Enrollment, s.Program = forged, consent.Program{Path: forged}
	q := bridge.Question{Client: process.This(), As: consent.Impersonates(http.Header{"Impersonate-User": {forged}, "Impersonate-Group": {forged}})}
	for _, f := range fieldsOf(s, q, nil, forged) {
		for _, v := range f.Values {
			if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c > '~' }) {
				t.Errorf("%s: %q", f.Label, v)
			}
		}
	}
}

// TestGroupsInQuestions: no group hides behind others on a small terminal, and what an
// impersonation is for is marked as other names are.
func TestGroupsInQuestions(t *testing.T) {
	h := http.Header{"Impersonate-User": {"j\u0430ne"}, "Impersonate-Extra-A": {strings.Repeat("x", 90)}}
	for i := range 20 {
		h.Add("Impersonate-Group", fmt.Sprintf("team%d", i))
	}
	h.Add("Impersonate-Group", "system:masters")
	r := consent.Parse("GET", "/api/v1/pods", h, false)
	if r.Odd != "" {
		t.Fatal(r.Odd)
	}
	fields := fieldsOf(consent.Statement{Request: r}, bridge.Question{As: consent.Impersonates(h)}, nil, "h")
	for _, f := range fields {
		if f.Label != "As" {
			continue
		}
		if len(f.Values) != 23 || f.Values[0] != `"j\u0430ne" (contains Cyrillic letters)` || f.Values[1] != `Group "system:masters"` {
			t.Errorf("%q", f.Values)
		}
		return
	}
	t.Error("it is not said who is impersonated")
}

// TestQuestionSaysWhatIsSigned: the question about a request with a body says what the body
// does, and names the body, the program's file and its parent; the statement has the digest
// and the path, and the log has no value of the body.
func TestQuestionSaysWhatIsSigned(t *testing.T) {
	p := &asker{answer: always(true, nil)}
	r, client, c := consenting(t, rigOptions{}, consent.Writes, p)
	const body = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pr\u043ed"},"data":{"password":"czNjcjN0"}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.ep.URL("prod")+"/api/v1/namespaces/web/secrets",
		strings.NewReader(body))
	check(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	check(t, err)
	check(t, resp.Body.Close())
	if resp.StatusCode != served || p.asked() != 1 {
		t.Fatalf("%s, %d questions", resp.Status, p.asked())
	}
	said := map[string]string{}
	for _, f := range p.questions[0].Fields {
		said[f.Label] = strings.Join(f.Values, "\n")
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	program := consent.ProgramOf(client.PID)
	for label, want := range map[string]string{
		"Request": "create secrets", "Namespace": `"web"`,
		"Does":    "Secret \"pr\\u043ed\" (contains Cyrillic letters)\ndata: 1 key, password; values are not shown",
		"Body":    fmt.Sprintf("%d bytes, SHA-256 %s...", len(body), sum[:16]),
		"Program": program.Path,
		"Process": fmt.Sprintf("%d, started by %s (%d)", client.PID, consent.ProgramOf(os.Getpid()), os.Getpid()),
		"A yes":   "covers all its further changes and reading, until it pauses for 30 s, at most 10 min",
	} {
		if said[label] != want {
			t.Errorf("%s: %q, want %q", label, said[label], want)
		}
	}
	all := r.recordsOf(audit.Consent)
	if len(all) != 1 || strings.Contains(all[0].Statement, "czNjcjN0") {
		t.Fatalf("%+v", all)
	}
	s, err := consent.Read(all[0].Statement)
	if err != nil || s.Body == nil || *s.Body != (consent.Body{Length: int64(len(body)), SHA256: sum}) ||
		s.Program != program {
		t.Errorf("%+v %+v %v", s, s.Body, err)
	}
}
