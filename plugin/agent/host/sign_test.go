package host

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/signing"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/provider"
	signer "github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/plugin/socket"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestSignForOthers: the agent signs for the external signer with what it holds
// unlocked for signing in, and with nothing else.
func TestSignForOthers(t *testing.T) {
	r := newRig(t, rigOptions{})
	digest := sha256.Sum256([]byte("handshake"))
	sign := func(u hsm.URI, digest []byte) ([]byte, bool, error) {
		return signing.Agent{Socket: r.dirs.Socket()}.Sign(t.Context(), u, digest, crypto.SHA256)
	}
	notHeld := func(what string, u hsm.URI) {
		t.Helper()
		if sig, held, err := sign(u, digest[:]); held || err != nil || sig != nil {
			t.Errorf("%s: held %t, %v", what, held, err)
		}
	}
	notHeld("a locked key", r.slot.URI)
	check(t, r.dial().Unlock(t.Context(), r.e.Name, hsmtest.Typing(t, pin)))
	sig, held, err := sign(r.slot.URI, digest[:])
	if err != nil || !held || !ecdsa.VerifyASN1(r.slot.Key.Public.(*ecdsa.PublicKey), digest[:], sig) {
		t.Fatalf("held %t, %v", held, err)
	}
	records := r.recordsOf(audit.Signature)
	if len(records) != 1 || records[0].Reason != "external-signer" || records[0].Enrollment != r.e.Name ||
		records[0].Outcome != audit.Granted ||
		records[0].Client == nil || records[0].Client.PID != os.Getppid() {
		t.Errorf("records %+v", records)
	}
	other := r.slot.URI
	other.Object = "another"
	notHeld("a key that is not enrolled", other)
	if sig, held, err := sign(r.slot.URI, digest[:31]); held || err != nil || sig != nil {
		t.Errorf("a short digest: held %t, %v", held, err)
	}
	unhashed := &wire.Sign{Key: r.slot.URI.String(), Digest: []byte("a text of any length")}
	r.mustAgent(func(a *agent) {
		if signed, err := a.signer.sign(t.Context(), auditing.Requester{}, unhashed, nil); signed != nil ||
			!errors.Is(err, externalsigner.ErrRequest) {
			t.Errorf("no hash: signed %v, %v", signed, err)
		}
	})
	for _, mode := range []consent.Mode{consent.Writes, consent.Always} {
		e := r.e
		e.Name, e.Policy, e.Key.Serial = "strict", mode, "" // the same key under another URI
		r.save(e)
		notHeld("a key with the policy "+string(mode)+" elsewhere", r.slot.URI)
		check(t, r.store.Delete(e.Name))
	}
	notHeld("a key whose strictest policy was removed while the agent runs", r.slot.URI)
	check(t, only(r.dial().Lock(t.Context())))
	notHeld("a key that was locked", r.slot.URI)
	if n := len(r.recordsOf(audit.Signature)); n != 1 {
		t.Errorf("%d signatures are on record, want 1", n)
	}
	if _, held, err := (signing.Agent{Socket: r.dirs.Socket() + "-not"}).Sign(t.Context(), r.slot.URI, digest[:],
		crypto.SHA256); held || err != nil {
		t.Errorf("without an agent: held %t, %v", held, err)
	}
}

// elsewhere is a process without our terminal, which lives as long as the test.
func elsewhere(t *testing.T) process.ID {
	id, _ := running(t)
	return id
}

// TestSignatureIsForWhoAsks: a signature is on record for the program that has started the signer
// or, where the signer serves others, for the signer.
func TestSignatureIsForWhoAsks(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.serve(Options{identify: identify, whose: believeSession})
	check(t, r.dial().Unlock(t.Context(), r.e.Name, hsmtest.Typing(t, pin)))
	digest := sha256.Sum256([]byte("handshake"))
	me, parent := process.This(), process.Parent()
	for n, c := range []struct{ serves, want process.ID }{{process.ID{}, parent}, {elsewhere(t), me}} {
		_, held, err := signing.Agent{Socket: r.dirs.Socket(), Client: c.serves}.Sign(t.Context(), r.slot.URI, digest[:],
			crypto.SHA256)
		records := r.recordsOf(audit.Signature)
		if err != nil || !held || len(records) != n+1 || records[n].Client == nil ||
			records[n].Client.PID != c.want.PID || records[n].Client.Command != consent.CommandOf(c.want.PID) {
			t.Errorf("it serves %v: held %t, %v, on record %+v", c.serves, held, err, records)
		}
	}
}

// prompts are what the provider shows.
type prompts struct {
	mu sync.Mutex
	bytes.Buffer
}

func (p *prompts) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Buffer.Write(b)
}

// whoami asks the API server who it sees, by a client with the auth provider.
func (r *rig) whoami(shown io.Writer, config map[string]string) (string, error) {
	f := provider.NewFactory(provider.Options{Stderr: shown})
	auth, err := f(r.api.URL, config, nil)
	check(r.t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.api.CAPEM)
	client := &http.Client{Transport: auth.WrapTransport(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}})}
	resp, err := client.Get(r.api.URL + "/echo")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusTeapot { // the stand-in's OK
		return "", errors.New(resp.Status)
	}
	var seen bridgetest.Arrived
	err = json.NewDecoder(resp.Body).Decode(&seen)
	return seen.User, err
}

// TestAgentIsExternalSigner: on its socket, for clients with the auth provider.
func TestAgentIsExternalSigner(t *testing.T) {
	r := newRig(t, rigOptions{api: bridgetest.Options{Strict: true}})
	listens(t, r.dirs.SignerSocket())
	poll.Until(t, "the socket is its user's alone", func() bool {
		info, err := os.Stat(r.dirs.SignerSocket())
		return err == nil && info.Mode().Perm() == 0o600
	})
	config := map[string]string{"pathSocket": "unix://" + r.dirs.SignerSocket(), "uri": r.slot.URI.String(),
		"enrollment": r.e.Name}
	fails := func(what, says string, config map[string]string) {
		t.Helper()
		if user, err := r.whoami(new(prompts), config); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: user %q, error %v, want one with %q", what, user, err, says)
		}
	}
	fails("a locked key", "run `kubehsm unlock prod`", config)

	// Who has offered to answer is asked once: a no holds for a while.
	no := hsmtest.NewScript(t, hsmtest.Cancel())
	leave := r.attendedBy(process.ID{}, ask.From(no))
	for range 2 {
		fails("a no", hsm.ErrCancelled.Error(), config)
	}
	if asked := no.PINs(); len(asked) != 1 || asked[0].Purpose.Command != consent.CommandOf(os.Getpid()) {
		t.Errorf("asked %+v", asked)
	}
	leave()
	// A while has passed.
	r.mustAgent(func(a *agent) { a.refusals.remember(process.This(), r.e.Name, nil, true, time.Now()) })

	// Nor is anybody asked for what the key does not sign.
	r.mustAgent(func(a *agent) {
		q, err := signer.FromParts(map[string]string{signer.KeyURI: r.slot.URI.String()}, []byte("a text of any length"),
			crypto.Hash(0))
		check(t, err)
		if out, err := a.signer.answer(t.Context(), q, func(string) {}); !errors.Is(err, externalsigner.ErrRequest) ||
			out.Signature != nil {
			t.Errorf("no hash: %+v, %v", out, err)
		}
	})

	// Somebody who has offered to answer is asked, and the client is told.
	leave = r.attendedBy(process.ID{}, ask.From(hsmtest.Typing(t, pin)))
	var shown prompts
	if user, err := r.whoami(&shown, config); err != nil || user != r.e.User {
		t.Errorf("user %q, %v", user, err)
	}
	if !strings.Contains(shown.String(), "kubehsm asks for the PIN of "+r.token.Info().Name()+
		": answer in the open kubehsm") {
		t.Errorf("the client's user reads %q", shown.String())
	}
	leave()

	if user, err := r.whoami(new(prompts), config); err != nil || user != r.e.User { // unlocked by now
		t.Errorf("user %q, %v", user, err)
	}
	if records := r.recordsOf(audit.Signature); len(records) != 2 || records[1].Reason != "external-signer" ||
		records[1].Client == nil || records[1].Client.PID != os.Getpid() {
		t.Errorf("records %+v", records)
	}
	other := map[string]string{"pathSocket": config["pathSocket"], "uri": "pkcs11:token=other;id=%02"}
	fails("another key", "no enrollment has this key", other)
	fails("slot numbers", "the agent knows keys by their uri",
		map[string]string{"pathSocket": config["pathSocket"], "pathLib": "/l.so", "slotId": "0", "objectId": "2"})
	r.policy(consent.Policy{Mode: consent.Writes})
	fails("a policy that asks", "prod: its enrollment asks for consent, which such a signature would go round", config)
	r.end()
	if _, err := os.Stat(r.dirs.SignerSocket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket was left: %v", err)
	}
}

// TestSignerIsGivenPINs: where nobody has offered to answer, the user's PIN sources
// and window do, and the client hears of what is asked of a person.
func TestSignerIsGivenPINs(t *testing.T) {
	for name, told := range map[string]bool{"source": false, "window": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{api: bridgetest.Options{Strict: true}, idle: true})
			var o Options
			if name == "window" {
				o.Asker = ask.From(hsmtest.Typing(t, pin))
			} else {
				file := filepath.Join(t.TempDir(), "pin")
				check(t, os.WriteFile(file, []byte(pin+"\n"), 0o600))
				var err error
				o.PINSources, err = pinsource.Entries(settings.Config{PINSources: []settings.PINSource{{Token: r.token.Info().URI().String(), Source: "file:" + file}}})
				check(t, err)
			}
			r.serve(o)
			listens(t, r.dirs.SignerSocket())
			config := map[string]string{"pathSocket": "unix://" + r.dirs.SignerSocket(), "uri": r.slot.URI.String(),
				"enrollment": r.e.Name}
			var shown prompts
			if user, err := r.whoami(&shown, config); err != nil || user != r.e.User {
				t.Errorf("user %q, %v", user, err)
			}
			if strings.Contains(shown.String(), ": answer in the window that opens") != told {
				t.Errorf("the client's user reads %q", shown.String())
			}
		})
	}
}

// listens waits until somebody does: a socket has its name before that.
func listens(t *testing.T, path string) {
	t.Helper()
	poll.Until(t, "somebody listens at "+path, func() bool {
		c, err := socket.Dial(t.Context(), path)
		return err == nil && c.Close() == nil
	})
}
