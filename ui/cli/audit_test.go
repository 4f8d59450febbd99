package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
)

// auditLog opens the bench's audit log and writes two records, an hour apart.
func (b *bench) auditLog() *audit.Log {
	b.t.Helper()
	dirs, err := home.FromEnv(func(k string) string { return b.env[k] })
	if err == nil {
		err = dirs.Prepare()
	}
	must.OK(b.t, err)
	l, err := audit.Open(audit.Path(dirs))
	must.OK(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	for _, r := range []audit.Record{
		{Time: time.Now().Add(-2 * time.Hour), Event: audit.Denial, Reason: "unknown-session", Code: 401, Count: 12},
		{Event: audit.Signature, Outcome: audit.Granted, Reason: "sign-in", Enrollment: "prod", Server: "api:6443", Key: strings.Repeat("ab", 32),
			Client: &audit.Process{PID: 42, Command: "kube\x1b[31mctl"},
			Token:  hsm.URI{Scheme: hsm.SchemePKCS11, Token: "trial"}},
	} {
		must.OK(b.t, l.Write(r))
	}
	return l
}

func TestAudit(t *testing.T) {
	b := newBench(t)
	if out := b.ok("audit"); out != "Nothing is on record.\n" {
		t.Errorf("%q", out)
	}
	b.auditLog()
	out := b.ok("audit")
	for _, words := range []string{"TIME", "401, unknown-session, 12 times", "signature", "granted", "prod",
		"sign-in, at api:6443, key abababababababab", " 42 "} {
		if !strings.Contains(out, words) {
			t.Errorf("no %q in\n%s", words, out)
		}
	}
	if out := b.ok("audit", "--since", "1h"); strings.Contains(out, "denial") || !strings.Contains(out, "signature") {
		t.Errorf("%s", out)
	}
	if out := b.ok("audit", "--enrollment", "other"); out != "Nothing is on record.\n" {
		t.Errorf("%s", out)
	}
	doc := document(t, b.ok("audit", "--enrollment", "prod", "-o", "json"))
	if r := doc["records"].([]any); len(r) != 1 || r[0].(map[string]any)["client"].(map[string]any)["pid"] != 42.0 {
		t.Errorf("%v", doc)
	}
	if out := b.ok("audit", "-o", "yaml"); !strings.Contains(out, "event: signature") {
		t.Errorf("%s", out)
	}
	b.fails(2, "not in the past", "audit", "--since=-1h")
}

// -f prints what comes, at once, and ends with the context.
func TestAuditFollow(t *testing.T) {
	b := newBench(t)
	l := b.auditLog()
	pr, pw := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &Program{Args: []string{"kubehsm", "audit", "-f", "-o", "json"}, Stdout: pw, Stderr: io.Discard,
		Stdin:  strings.NewReader(""),
		Getenv: func(k string) string { return b.env[k] }, Setenv: func(string, string) error { return nil }, Version: "test",
		asker: b.ask}
	code := make(chan int, 1)
	go func() { code <- p.Run(ctx); _ = pw.Close() }()
	lines := bufio.NewScanner(pr)
	next := func() (r audit.Record) {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("no more lines:", lines.Err())
		}
		must.OK(t, json.Unmarshal(lines.Bytes(), &r))
		return r
	}
	if a, s := next(), next(); a.Event != audit.Denial || s.Event != audit.Signature {
		t.Fatalf("%+v %+v", a, s)
	}
	must.OK(t, l.Write(audit.Record{Event: audit.Lock}))
	if r := next(); r.Event != audit.Lock {
		t.Fatalf("%+v", r)
	}
	cancel()
	if lines.Scan() || <-code != 0 {
		t.Error("it did not end well")
	}
}

func TestAgentUnit(t *testing.T) {
	b := newBench(t)
	code, out, errs := b.run("agent", "unit")
	if code != 0 || !strings.Contains(out, `ExecStart="/usr/bin/kubehsm" agent serve --supervised`) ||
		!strings.Contains(out, "KUBEHSM_HOME="+b.home) ||
		!strings.Contains(errs, "systemctl --user enable --now kubehsm-agent.service") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	code, out, errs = b.run("agent", "unit", "--launchd")
	if code != 0 || !strings.Contains(out, "<string>/usr/bin/kubehsm</string>") ||
		!strings.Contains(errs, "~/Library/LaunchAgents/io.github.kubehsm.agent.plist") {
		t.Errorf("%d %s %s", code, out, errs)
	}
}
