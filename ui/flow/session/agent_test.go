package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// served is a world whose agent runs, with the enrollment prod-hsm.
func served(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	w.Enroll("prod-hsm", "jane")
	flowtest.Agent(t, w.Env)
	return w
}

func unlocked(ctx context.Context, w *flowtest.World) (bool, error) {
	s, err := Agent{w.Env}.AgentStatus(ctx)
	return slices.ContainsFunc(s.Tokens, func(t message.TokenStatus) bool { return t.Unlocked }), err
}

// TestUnlock: the agent unlocks the token with the PIN, or leaves it locked.
func TestUnlock(t *testing.T) {
	flowtest.UseCase{Name: "unlock", World: served, Answers: []hsmtest.Answer{hsmtest.PIN("123456")},
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			err := Agent{w.Env}.Unlock(ctx, "prod-hsm", p)
			if is, serr := unlocked(context.WithoutCancel(ctx), w); serr != nil || is && err != nil || !is && err == nil {
				t.Errorf("%v, unlocked %v, %v", err, is, serr)
			}
			return err
		}}.Try(t)
	w := served(t)
	if err := (Agent{w.Env}).Unlock(t.Context(), "other", hsmtest.NewScript(t)); !errors.Is(err, enrollment.ErrUnknown) {
		t.Errorf("of what is not enrolled: %v", err)
	}
}

// TestLockAndStop: the agent forgets the PIN, or ends. Without an agent there is nothing to
// do, and after ctrl-c the agent is as it was.
func TestLockAndStop(t *testing.T) {
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	silent := func(s string) { t.Errorf("said %q", s) }
	for name, do := range map[string]func(context.Context, Agent) error{
		"lock": func(ctx context.Context, a Agent) error { return a.LockAgent(ctx, silent) },
		"stop": func(ctx context.Context, a Agent) error { return a.StopAgent(ctx, nil) },
	} {
		w := served(t)
		a := Agent{w.Env}
		must.OK(t, a.Unlock(t.Context(), "prod-hsm", hsmtest.Typing(t, "123456")))
		if err := do(cancelled, a); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, ctrl-c: %v", name, err)
		}
		if is, err := unlocked(t.Context(), w); !is || err != nil {
			t.Errorf("%s, ctrl-c: unlocked %v, %v", name, is, err)
		}
		if err := do(t.Context(), a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		is, err := unlocked(t.Context(), w)
		if is || errors.Is(err, client.ErrNotRunning) != (name == "stop") {
			t.Errorf("%s: unlocked %v, %v", name, is, err)
		}
		if name == "lock" {
			continue
		}
		for _, again := range []error{do(t.Context(), a), a.LockAgent(t.Context(), silent),
			a.OfferResponder(t.Context(), nil, nil)} {
			if !errors.Is(again, client.ErrNotRunning) {
				t.Errorf("without an agent: %v", again)
			}
		}
	}
}

// TestAgentThatCannotStart: the error says why, and where to look.
func TestAgentThatCannotStart(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	w.Enroll("prod-hsm", "jane")
	for program, words := range map[string]string{"/nonexistent/kubehsm": "no such file", "/bin/false": "exit status 1"} {
		w.Env.Executable = program
		if err := (Agent{w.Env}).Unlock(t.Context(), "prod-hsm", hsmtest.NewScript(t)); err == nil ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// TestAgentHangsUp: the error says that the agent ended in the middle of an operation.
func TestAgentHangsUp(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "")
	w.Stuck()
	a := Agent{w.Env}
	_, status := a.AgentStatus(t.Context())
	for name, err := range map[string]error{"status": status, "lock": a.LockAgent(t.Context(), nil),
		"stop":  a.StopAgent(t.Context(), nil),
		"offer": a.OfferResponder(t.Context(), hsmtest.NewScript(t), nil)} {
		if !errors.Is(err, message.ErrStopped) || hinting.Of(err) == "" {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
}

// TestOfferResponder: the agent counts a responder until that goes.
func TestOfferResponder(t *testing.T) {
	w := served(t)
	a := Agent{w.Env}
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- a.OfferResponder(ctx, hsmtest.NewScript(t), func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	if s, err := a.AgentStatus(t.Context()); err != nil || s.Responders != 1 {
		t.Errorf("%d to be asked, %v", s.Responders, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestSettleCards: after an agent was ended by force, each card of an enrollment is locked.
// The error names a card that could not be locked, and says what to do.
func TestSettleCards(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	en := w.Enroll("prod-hsm", "jane")
	en.Name = "same-card"
	must.OK(t, w.Env.Enrollments().Save(en))
	opened := 0
	w.Card.Before(func(_ context.Context, op hsmtest.Op) error {
		if op == hsmtest.OpOpen {
			opened++
		}
		return nil
	})
	if err := (Agent{w.Env}).settleCards(t.Context(), nil); err != nil || opened != 1 {
		t.Errorf("%v, opened %d times", err, opened)
	}
	w.Card.Fail(hsmtest.OpOpen, hsm.ErrModule)
	err := Agent{w.Env}.settleCards(t.Context(), nil)
	if !errors.Is(err, hsm.ErrModule) || !strings.Contains(hinting.Of(err), "unplug the card") {
		t.Errorf("%v, hint %q", err, hinting.Of(err))
	}
}

// TestAudit: the audit log is read, and the token's signature in a record is checked against
// the certificate that the enrollment had then.
func TestAudit(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	en := w.Enroll("prod-hsm", "jane")
	a := Agent{w.Env}
	s := consent.Statement{Time: time.Now().UTC(), Enrollment: en.Name, Server: en.Cluster.Server,
		Request: consent.Request{Verb: "delete", Resource: "pods"}}
	text, err := s.Text()
	must.OK(t, err)
	signed := audit.Record{Event: audit.Consent, Enrollment: en.Name, Key: en.KeyHash, Request: s.Request.String(),
		Statement: text,
		Token:     en.Key}
	signed.Signature = sign(t, w, en.Key, signed.Statement)
	forged, foreign, unsigned, lost := signed, signed, signed, signed
	forged.Signature = append([]byte{}, signed.Signature...)
	forged.Signature[len(forged.Signature)-1] ^= 1
	foreign.Request, unsigned.Signature, lost.Key = "something else", nil, strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		r    audit.Record
		want error
	}{
		"signed": {signed, nil}, "forged": {forged, consent.ErrSignature}, "foreign": {foreign, consent.ErrSignature},
		"unsigned": {r: unsigned}, "of a certificate that is gone": {lost, hsm.ErrNoCertificate},
	} {
		err := a.Signatures().Verify(c.r)
		if (err == nil) != (name == "signed") || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The enrollments are read once for all records, and again when one was written.
	signatures := a.Signatures()
	if err := signatures.Verify(signed); err != nil {
		t.Error(err)
	}
	path := filepath.Join(w.Env.Dirs.State, "enrollments", en.Name+".json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil { // the folder does not change
		t.Fatal(err)
	}
	if err := signatures.Verify(signed); err != nil {
		t.Errorf("the enrollments are read for each record: %v", err)
	}
	// A key that the enrollment does not have is another one's, or that of before a renewal.
	renewed := en
	renewed.KeyHash = strings.Repeat("1", 64)
	must.OK(t, w.Env.Enrollments().Save(renewed))
	if err := signatures.Verify(signed); !errors.Is(err, consent.ErrFormerKey) {
		t.Errorf("by a key of before: %v", err)
	}
	must.OK(t, w.Env.Enrollments().Save(en))
	flowtest.Record(t, w.Env.Dirs, audit.Record{Event: audit.Lock})
	stop := errors.New("enough")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		each error
	}{{t.Context(), nil}, {t.Context(), stop}, {cancelled, context.Canceled}} {
		n := 0
		damaged, err := a.Audit(c.ctx, audit.Filter{}, func(audit.Record) error { n++; return c.each })
		if !errors.Is(err, c.each) || damaged != 0 || n > 1 {
			t.Errorf("%d records, %d damaged, %v; want %v", n, damaged, err, c.each)
		}
	}
}

func sign(t *testing.T, w *flowtest.World, u hsm.URI, text string) (signature []byte) {
	t.Helper()
	token, err := w.Env.Drivers.Open(t.Context(), u)
	must.OK(t, err)
	defer token.Close()
	key, err := token.Signer(t.Context(), u, nil, hsmtest.Typing(t, w.Card.PIN()))
	if err == nil {
		signature, err = consent.Sign(key, text)
	}
	must.OK(t, err)
	return signature
}

// TestAgentSocket: the unit names the address that the bridge has.
func TestAgentSocket(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "")
	file, where, err := Agent{w.Env}.AgentSocket()
	bridge, berr := w.Env.Bridge()
	if err := errors.Join(err, berr); err != nil || !strings.Contains(string(file), "ListenStream="+bridge.Address()) ||
		!strings.Contains(where, "kubehsm agent stop") {
		t.Errorf("%s\n%s\n%v", file, where, err)
	}
}
