package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/doctor"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// TestBothSayTheSame: whatever is known of a state, the command line prints and the
// terminal UI draws the same of it, in the same order, with a mark at the same places.
func TestBothSayTheSame(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	card := hsm.TokenInfo{Scheme: hsm.SchemePIV, Model: "YubiKey 5", Serial: "1", Initialized: true,
		PIN: hsm.PINState{Retries: 3}}
	known := &hsm.Details{PIN: &hsm.Tries{Left: 3, Total: 3, Default: true}, PUK: &hsm.Tries{Total: 3},
		ManagementKey: hsm.ManagementKeyState{Default: true}}
	facts := func(f []present.Fact) []present.Section { return []present.Section{{Facts: f}} }
	until := now.Add(time.Hour)
	lost := desk.Revocation{User: "jane", Bindings: []desk.BindingView{{Kind: "RoleBinding", Namespace: "dev",
		Name: "jane-edit", Role: "ClusterRole edit"}},
		GroupBindings: []desk.BindingView{{Kind: "RoleBinding", Name: "devs", Role: "ClusterRole view", Subject: "dev"}},
		Certificates:  []desk.CertificateView{{Request: "jane-1", Groups: []string{"dev"}, NotAfter: until}},
		Pending:       []string{"jane-2"},
		Approved:      []string{"jane-3"}, Tickets: []string{"abcdef"}, Unseen: []string{"tickets of other desks"},
		Unknown: []string{"older ones"},
		Done:    []string{"ticket abcdef ended"}, Failed: []string{"request jane-2 denied: no"}}
	made := desk.IssuedTicket{ID: "abcdef", Terms: ticket.Terms{User: "jane", Groups: []string{"dev"}}, Expires: until,
		Unproven: "no cluster-info"}
	for name, sections := range map[string][]present.Section{
		"a card":          facts(present.TokenFacts(card, nil)),
		"a default PUK":   present.Mend(enrolling.Result{Warnings: []string{"the PUK is still the default one"}}),
		"default values":  facts(present.TokenFacts(card, known)),
		"a blank token":   facts(present.TokenFacts(hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Module: &hsm.Module{Path: "/x.so"}}, nil)),
		"an empty slot":   facts(present.SlotFacts(hsm.Slot{URI: hsm.URI{Scheme: hsm.SchemePIV, Slot: "9a"}, ID: "9a"}, now)),
		"an open key":     facts(present.SlotFacts(hsm.Slot{ID: "01", Label: "old", Key: &hsm.Key{Algorithm: hsm.RSA2048, Extractable: true}}, now)),
		"an odd slot":     facts(present.SlotFacts(hsm.Slot{ID: "9c", Problem: "unreadable"}, now)),
		"a bare request":  present.Request(request.View{State: "pending", User: "jane", Requester: "harry"}, now),
		"a fresh request": present.Filed(request.View{State: "pending", User: "jane", Created: now}, now),
		"a judged request": present.Request(request.View{State: "denied", Reason: "No", Message: "ask\x1b[2J again", User: "jane", Groups: []string{"dev"},
			Attestation: "verified to a maker", Attested: true, Rights: []string{"edit in dev", "view in prod"},
			RightsUnknown: []string{"roles"}}, now),
		"what speaks against it": {{Lines: present.Verdicts(request.View{Refusals: []string{"revoked"}, Warnings: []string{"for somebody else"}})}},
		"a context of ours": facts(present.ContextFacts(contexts.View{Name: "prod", Cluster: "prod", Server: "https://127.0.0.1:1", APIServer: "https://prod",
			UserKind: string(kubeconfig.UserOurs), Enrollment: "prod-hsm"}, &enroll.Expiring{NotAfter: now}, now)),
		"a context with a key": facts(present.ContextFacts(contexts.View{Name: "old", UserKind: string(kubeconfig.UserKeyFile)}, &enroll.Expiring{Err: errors.New("gone")}, now)),
		"the agent":            facts(present.AgentFacts(message.Status{Version: "1", PID: 2, Started: now, Bridge: "127.0.0.1:3", Memory: 3 << 20}, now)),
		"an agent in need":     facts(present.AgentFacts(message.Status{Started: now, BridgeError: "in use", AuditError: "disk full"}, now)),
		"an agent that stays":  facts(present.AgentFacts(message.Status{Started: now, NeverFollows: true}, now)),
		"a revocation":         present.Revocation(lost),
		"nothing to revoke":    present.Revocation(desk.Revocation{User: "harry"}),
		"access taken away":    present.Revoked(lost),
		"nothing taken away":   present.Revoked(desk.Revocation{User: "harry"}),
		"nothing for need":     present.Emergencies(nil),
		"what is for need":     present.Emergencies([]desk.BreakGlassView{{Name: "a", State: "live", NotAfter: until}, {Name: "c", State: "expired"}}),
		"a review of a new key": facts(present.ReviewFacts(enroll.Review{Server: "https://prod", Token: card,
			Options: enrolling.Options{Name: "prod-hsm", Context: "prod", Token: card.URI(), User: "jane",
				Generate: hsm.GenerateOptions{Slot: "9a", PIN: hsm.PINOnce}}})),
		"a review of a join": facts(present.ReviewFacts(enroll.Review{Resumes: []enrolling.Step{enrolling.StepKey},
			Options: enrolling.Options{Join: &enrolling.Join{Ticket: "abcdef"}, Expiration: 48 * time.Hour}})),
		"a result": {{Facts: present.ResultFacts(enrolling.Result{Groups: []string{"dev", "system:authenticated"}, Context: "prod", NotAfter: until}, now)},
			{Facts: present.RecordFacts(enrolling.Result{Key: card.URI(), Fingerprint: "ab", Request: "jane-1", Kubeconfig: "/k"})}},
		"what is removed":       present.Unenroll(contexts.Unenrollment{Enrollment: enrollment.Enrollment{Name: "prod-hsm", User: "jane", Key: card.URI()}, SameKey: []string{"dev-hsm"}}),
		"an attestation":        present.Attested(token.Attestation{Statement: attest.Statement{Slot: "9a", Model: "YubiKey 5C", Algorithm: hsm.ECDSAP256, FIPS: true}, Checked: true}),
		"no attestation":        present.Attested(token.Attestation{Err: attest.ErrMalformed}),
		"a ticket":              present.Ticket(made),
		"what cannot be listed": facts(present.Problems([]hsm.Problem{{Source: "/lib/broken.so", Err: hint.With(hsm.ErrModule, "replace it")}, {Source: "none", Err: hsm.ErrNoToken}}, true)),
	} {
		t.Run(name, func(t *testing.T) {
			w := &words{}
			w.sections(sections)
			drawn := strings.Join(widget.Sections(theme.New(theme.Options{Profile: colorprofile.ASCII}), sections, 1000), "\n")
			printed, seen := said(w.b.String()), said(ansi.Strip(drawn))
			if printed != seen || printed == "" {
				t.Errorf("printed:\n%s\ndrawn:\n%s", printed, seen)
			}
		})
	}
	points := []csr.Point{{ID: "create", Verdict: csr.OK, Reason: "you may", Evidence: "a review"},
		{ID: "issues", Verdict: csr.Refuse, Reason: "nobody signs"}}
	b := &words{}
	forecastWords(b, points)
	for _, p := range present.Forecast(points) {
		if !strings.Contains(said(b.b.String()), said(p.ID+" "+p.Verdict.Words+" "+p.Reason+p.Evidence)) {
			t.Errorf("%+v is not printed:\n%s", p, b.b.String())
		}
	}
	check := doctor.Check{Group: "tokens", Title: "PIN", State: doctor.Warning, Found: "it is the default",
		Why: "Everybody knows it.", Fix: "change it"}
	w := &words{}
	checkWords(w, []doctor.Check{check})
	for _, want := range append(check.Advice(), string(check.State), check.Title+": "+check.Found,
		"To mend it: change it") {
		if !strings.Contains(w.b.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, w.b.String())
		}
	}
	status := message.Status{Tokens: []message.TokenStatus{{URI: hsm.URI{Scheme: hsm.SchemePIV, Serial: "1"},
		Unlocked: true, Until: now.Add(time.Hour)}},
		Upstreams: []upstream.Status{{Enrollment: "prod", Server: "prod:443", Rejected: true},
			{Enrollment: "dev", Protocol: "h2", Connections: 1, Requests: 1}},
		Sessions:      []bridge.SessionStatus{{Enrollment: "prod", Requests: 2, Open: 1, Until: now.Add(time.Minute)}},
		OtherSessions: bridge.OtherSessions{More: 44, Ended: 1, Until: now.Add(25 * time.Second)}}
	want := []string{"token 1|unlocked, 1 h more if not used",
		"connection to prod:443|certificate rejected, 0 requests, 0 of 0 signed",
		"connection to |connected (h2), 1 request, 0 of 0 signed", "process 0|2 requests, 1 open, 1 min left",
		"44 more programs|until they end", "1 program that ended|forgotten in under 1 min"}
	for i, o := range present.OpenAt(status, now) {
		if got := o.What + "|" + o.State; got != want[i] {
			t.Errorf("%q, want %q", got, want[i])
		}
	}
}

// TestProblemWords: problems come first, the worst before the others, many of one kind are
// counted, and so is what passed.
func TestProblemWords(t *testing.T) {
	checks := []doctor.Check{{ID: "program", State: doctor.OK, Title: "This program", Found: "fine"}}
	for i := range 300 {
		checks = append(checks, doctor.Check{ID: fmt.Sprint("context/", i), State: doctor.Note,
			Title: fmt.Sprintf("Context c%d", i), Found: "its private key is a file", Why: "Programs can copy it."})
	}
	checks = append(checks, doctor.Check{ID: "bridge", State: doctor.Failed, Title: "Bridge", Found: "down"})
	w := &words{}
	problemWords(w, checks)
	out := w.b.String()
	if !strings.HasPrefix(out, "  failed   Bridge: down\n") || strings.Count(out, "Context c") != 3 ||
		!strings.Contains(out, "and 297 more of this kind") || !strings.Contains(out, "1 check passed; --all lists them") ||
		strings.Contains(out, "This program") {
		t.Error(out)
	}
}

// TestOpenPromisesNoMore: a status does not call unlocked what could not be asked, nor a
// connection good whose certificate has ended, and tells at most how long a thing lasts.
func TestOpenPromisesNoMore(t *testing.T) {
	now := time.Now()
	ended := now.Add(-time.Hour)
	s := message.Status{Tokens: []message.TokenStatus{
		{URI: hsm.URI{Serial: "1"}, Until: now.Add(29*time.Minute + time.Second), Problem: "the smart card service is not running"},
		{URI: hsm.URI{Serial: "2"}, Problem: "it does not answer for 1s"},
		{URI: hsm.URI{Serial: "3"}, Until: now.Add(29*time.Minute + time.Second)}},
		Upstreams: []upstream.Status{{Connections: 1, CertificateEnds: ended}, {CertificateEnds: ended},
			{CertificateEnds: now.Add(time.Hour)}}}
	for i, want := range []string{
		"!cannot be asked: the smart card service is not running; connections that it signed are closed within 29 min",
		"!cannot be asked: it does not answer for 1s",
		"locked; connections that it signed are closed within 29 min",
		"!!still connected, but the certificate ended on " + present.Date(ended) + ", 0 requests, 0 of 0 signed",
		"!!the certificate ended on " + present.Date(ended) + ", 0 requests, 0 of 0 signed",
		"not connected, 0 requests, 0 of 0 signed"} {
		o := present.OpenAt(s, now)[i]
		if got := map[present.Level]string{present.Warn: "!", present.Bad: "!!"}[o.Level] + o.State; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLockedWhy: a status says why a token was locked, which ways of leaving lock, and
// which cannot be told here.
func TestLockedWhy(t *testing.T) {
	now := time.Now()
	s := message.Status{Tokens: []message.TokenStatus{{URI: hsm.URI{Serial: "1"}, LockedBy: "screen-lock",
		LockedAt: now.Add(-5 * time.Minute)}, {URI: hsm.URI{Serial: "2"}, LockedBy: "of a later version", LockedAt: now}}}
	for i, want := range []string{"locked 5m ago: the screen was locked", "locked"} {
		if got := present.OpenAt(s, now)[i].State; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, on := range map[present.Fact][]message.LockOnStatus{
		{Name: "Locks on"}: nil,
		{Name: "Locks on", Value: "suspend, screen lock"}: {{Reason: "suspend"}, {Reason: "screen-lock"}},
		{Name: "Locks on", Value: "screen lock, not on suspend: no bus", Level: present.Warn}: {
			{Reason: "suspend", Problem: "no bus"}, {Reason: "screen-lock"}},
	} {
		if !slices.Contains(present.AgentFacts(message.Status{LocksOn: on}, now), want) {
			t.Errorf("no fact %+v", want)
		}
	}
}

// said is what a rendering says, without how it is laid out.
func said(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		fields := strings.Fields(strings.TrimSpace(line))
		for i, f := range fields {
			fields[i] = strings.TrimSuffix(f, ":")
		}
		if len(fields) > 0 && (fields[0] == "-" || fields[0] == "•") { // the sign of a list
			fields = fields[1:]
		}
		for i, f := range fields {
			if f == "✗" || f == "x" { // drawn for what the printed mark is
				fields[i] = "!"
			}
		}
		if len(fields) > 0 {
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	return strings.Join(lines, "\n")
}
