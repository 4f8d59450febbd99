package host

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestConnectionOverTheSocket: a process that has read a PIN, whose sockets nobody is shown, reaches the bridge over the
// agent's socket with its own session, and with no other's.
func TestConnectionOverTheSocket(t *testing.T) {
	hidden := errors.New("its descriptors are hidden")
	r := newRig(t, rigOptions{idle: true})
	r.serve(Options{identify: believe, whose: func(netip.AddrPort, netip.AddrPort, bridge.Client, []bridge.Client) (bridge.Client, bool, error) {
		return bridge.Client{}, false, hidden
	}})
	get := func(of process.ID, dial func(context.Context, string, string) (net.Conn, error)) (int, string) {
		t.Helper()
		s, err := r.prepare(r.dial(), of, hsmtest.Typing(t, pin))
		check(t, err)
		web := r.http(s)
		web.Transport.(*http.Transport).DialContext = dial
		resp, err := web.Get(r.ep.URL("prod") + "/version")
		check(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		check(t, err)
		return resp.StatusCode, string(body)
	}
	socket := func(ctx context.Context, _, _ string) (net.Conn, error) { return client.DialBridge(ctx, r.dirs) }
	if code, body := get(process.This(), nil); code != http.StatusUnauthorized || !strings.Contains(body, hidden.Error()) {
		t.Errorf("over TCP: %d %s", code, body)
	}
	if code, body := get(process.This(), socket); code != http.StatusOK {
		t.Errorf("over the agent's socket: %d %s", code, body)
	}
	if code, body := get(caller(1), socket); code != http.StatusUnauthorized ||
		!strings.Contains(body, "this connection belongs to process") {
		t.Errorf("with another process's session: %d %s", code, body)
	}
}

// TestUnlockOfATokenToEnroll: a token is held unlocked before there is an enrollment of its key, and serves that
// without a question once there is. A lock ends it as any other.
func TestUnlockOfATokenToEnroll(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	unlock := func() {
		t.Helper()
		check(t, c.UnlockToken(t.Context(), "to-come", r.slot.URI, hsmtest.NewScript(t, hsmtest.PIN(pin))))
	}
	unlock()
	if s, err := c.Status(t.Context()); err != nil || len(s.Tokens) != 1 || !s.Tokens[0].Unlocked {
		t.Errorf("%+v, %v", s.Tokens, err)
	}
	r.mustPrepare(hsmtest.NewScript(t)) // asks nobody
	if _, err := c.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.UnlockToken(t.Context(), "to-come", r.slot.URI, nil); !errors.Is(err, hsm.ErrNoTerminal) {
		t.Errorf("after a lock: %v", err)
	}
	unlock()
}
