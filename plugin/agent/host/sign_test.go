package host

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/signing"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/process"
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

// TestSignatureIsForWhoAsks: a signature is on record for the program that has started the signer.
func TestSignatureIsForWhoAsks(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.serve(Options{identify: identify, whose: believeSession})
	check(t, r.dial().Unlock(t.Context(), r.e.Name, hsmtest.Typing(t, pin)))
	digest := sha256.Sum256([]byte("handshake"))
	_, held, err := signing.Agent{Socket: r.dirs.Socket()}.Sign(t.Context(), r.slot.URI, digest[:], crypto.SHA256)
	parent := process.Parent().PID
	if records := r.recordsOf(audit.Signature); err != nil || !held || len(records) != 1 || records[0].Client == nil ||
		records[0].Client.PID != parent || records[0].Client.Command != consent.CommandOf(parent) {
		t.Errorf("held %t, %v, on record %+v", held, err, records)
	}
}
