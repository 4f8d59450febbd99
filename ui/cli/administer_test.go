package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
)

// enrolledWith puts an enrollment with the slot's key into the store.
func (b *bench) enrolledWith(name string, slot hsm.Slot) {
	b.t.Helper()
	hash, err := hsm.Fingerprint(slot.Key.Public)
	must.OK(b.t, err)
	dirs, err := home.FromEnv(func(k string) string { return b.env[k] })
	must.OK(b.t, err)
	err = enrollment.NewStore(dirs).Save(enrollment.Enrollment{
		Name: name, Cluster: cluster.Cluster{Server: "https://cluster.example"}, Key: slot.URI, KeyHash: hash,
		User: "jane", Created: time.Now().UTC(),
	})
	must.OK(b.t, err)
}

func TestTokenInfo(t *testing.T) {
	b := newBench(t)
	slot, _ := b.keyWithCertificate()
	out := b.ok("token", "info")
	for _, want := range []string{"Token:", "trial", "3 tries left", "ORIGIN", "generated", slot.ID} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	doc := document(t, b.ok("token", "info", "--token", "pkcs11:token=trial", "-o", "json"))
	if doc["label"] != "trial" || doc["details"] != nil || len(doc["slots"].([]any)) != 1 {
		t.Errorf("%v", doc)
	}
	b.fails(3, "no such token", "token", "info", "--token", "pkcs11:token=other")
}

func TestTokenWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		if out := b.ok("token", "wait"); !strings.Contains(out, "Fake reader 0") || !strings.Contains(out, "10000001") {
			t.Errorf("%s", out)
		}
		b.fails(124, "Waiting for a token", "token", "wait", "--new", "--timeout", "1s")
		b.fails(124, "Waiting for a token", "token", "wait", "--token", "pkcs11:token=other", "--timeout", "1s")
		b.fails(1, "not available", "token", "wait", "--token", "piv:serial=1")
		b.token.Unplug()
		looks := 0
		b.token.Before(func(context.Context, hsmtest.Op) error { // inserted once it was looked for in vain
			if looks++; looks == 1 {
				return hsm.ErrRemoved
			}
			b.token.Plug()
			return nil
		})
		doc := document(t, b.ok("token", "wait", "-o", "json"))
		if tokens := doc["tokens"].([]any); len(tokens) != 1 || tokens[0].(map[string]any)["reader"] != "Fake reader 0" {
			t.Errorf("%v", doc)
		}
	})
}

// TestTokensThatCannot: what a token cannot do is said before anybody is asked.
func TestTokensThatCannot(t *testing.T) {
	b := newBench(t)
	slot, _ := b.keyWithCertificate()
	b.ask = hsmtest.NewScript(t)
	key := slot.URI.String()
	for _, args := range []string{
		"token pin change", "token pin unblock", "token puk change", "token reset",
		"token management-key set --protect", "token init --label x", "key attest --key " + key,
	} {
		b.fails(1, hsm.ErrUnsupported.Error(), strings.Fields(args)...)
	}
	for args, words := range map[string]string{
		"token pin change --so --token piv:serial=1": "has no SO PIN",
		"token management-key set --algorithm rsa":   "is not one of",
		"token init":                                       "--label is missing",
		"token init --label x --erase":                     "name the token",
		"token puk change --generate --new-puk-fd 7":       "--generate and --new-puk-fd exclude each other",
		"token puk change --print":                         "nothing to print",
		"key show":                                         "--key is missing",
		"attestation verify":                               "an argument is missing",
		"key delete --accept-risk 12345 --key " + key:      "as serial:NUMBER",
		"key delete --accept-risk serial:12 --key " + key:  "nothing was changed",
		"key attest --root /nonexistent --key piv:slot=9a": "no such file",
	} {
		b.fails(2, words, strings.Fields(args)...)
	}
}

func TestKeyShow(t *testing.T) {
	b := newBench(t)
	slot, file := b.keyWithCertificate()
	key := slot.URI.String()
	if out := b.ok("key", "show", "--key", key); !strings.Contains(out, "generated on the token, cannot leave it") ||
		strings.Contains(out, "User:") {
		t.Errorf("%s", out)
	}
	b.store(slot, file)
	if out := b.ok("key", "show", "--key", key); !strings.Contains(out, "User:         jane\n") ||
		!strings.Contains(out, "Serial:       abc\n") {
		t.Errorf("%s", out)
	}
	if out := b.ok("key", "show", "--key", key, "-o", "pem"); !strings.HasPrefix(out, "-----BEGIN PUBLIC KEY-----\n") {
		t.Errorf("%s", out)
	}
}

func TestKeyDelete(t *testing.T) {
	b := newBench(t)
	slot, _ := b.keyWithCertificate()
	b.enrolledWith("prod-hsm", slot)
	key := slot.URI.String()
	script := hsmtest.NewScript(t, hsmtest.No())
	b.ask = script
	b.fails(130, "could no longer sign in: prod-hsm", "key", "delete", "--key", key)
	if asked := script.Prompts(); len(asked) != 1 || asked[0].Confirm.Type != "10000001" {
		t.Errorf("asked %+v", asked)
	}
	b.ask = noTerminal{hsmtest.NewScript(t)}
	b.fails(5, "--accept-risk=serial:10000001", "key", "delete", "--key", key)
	if !strings.Contains(b.ok("key", "list"), "object=prod") {
		t.Fatal("the key is gone")
	}
	b.ask = hsmtest.Typing(t, testPIN)
	doc := document(t, b.ok("key", "delete", "--key", key, "--accept-risk", "serial:10000001", "-o", "json"))
	if doc["deleted"].(map[string]any)["label"] != "prod" || doc["enrollments"].([]any)[0] != "prod-hsm" {
		t.Errorf("%v", doc)
	}
	b.fails(1, hsm.ErrNoKey.Error(), "key", "show", "--key", key)
}

// TestDeleteOnlyWhatWasShown: a key that takes the place of another while the
// question is up is not destroyed.
func TestDeleteOnlyWhatWasShown(t *testing.T) {
	b := newBench(t)
	b.fake = hsmtest.NewFake(hsm.SchemePIV)
	b.token = b.fake.Add(hsmtest.FakeOptions{Serial: "1234567", PIN: testPIN})
	b.ask = hsmtest.Typing(t, testPIN)
	b.ok("key", "generate")
	b.ask = swapping{b, hsmtest.Typing(t, testPIN)}
	b.fails(1, "it was changed meanwhile", "key", "delete", "--key", "piv:slot=9a")
	if !strings.Contains(b.ok("key", "list"), "9a") {
		t.Error("the new key was destroyed")
	}
}

// swapping says yes after somebody else has put another key in the slot.
type swapping struct {
	b *bench
	hsm.Prompter
}

func (s swapping) Confirm(ctx context.Context, _ hsm.ConfirmPrompt) (bool, error) {
	token, err := s.b.fake.Open(ctx, hsm.URI{Scheme: hsm.SchemePIV})
	if err != nil {
		return false, err
	}
	_, err = token.Generate(ctx, hsm.GenerateOptions{Slot: "9a", Overwrite: true}, s.Prompter)
	return err == nil, err
}

// noTerminal cannot ask for a confirmation.
type noTerminal struct{ hsm.Prompter }

func (noTerminal) Confirm(context.Context, hsm.ConfirmPrompt) (bool, error) {
	return false, hsm.ErrNoTerminal
}

func TestAttestationVerify(t *testing.T) {
	b := newBench(t)
	genuine := "../../hsm/attest/testdata/yubikey5.pem"
	out := b.ok("attestation", "verify", genuine)
	if !strings.Contains(out, "generated on YubiKey 5C Nano 15732500, firmware 5.4.3, PIN once, touch never") ||
		!strings.Contains(out, "It is verified to Yubico PIV Root CA Serial 263751") {
		t.Errorf("%s", out)
	}
	doc := document(t, b.ok("attestation", "verify", genuine, "-o", "json"))["attestations"].([]any)[0].(map[string]any)
	if doc["verified"] != true || doc["statement"].(map[string]any)["serial"] != "15732500" {
		t.Errorf("%v", doc)
	}
	// In two halves, the wrong way round, and for the key that it is for.
	first, second, _ := strings.Cut(b.read(genuine), "-----END CERTIFICATE-----\n")
	first += "-----END CERTIFICATE-----\n"
	one, two := filepath.Join(b.home, "1.pem"), filepath.Join(b.home, "2.pem")
	mixed := filepath.Join(b.home, "mixed.pem") // two devices' certificates
	for name, text := range map[string]string{one: first, two: second, mixed: second + second} {
		must.OK(t, os.WriteFile(name, []byte(text), 0o600))
	}
	if out := b.ok("attestation", "verify", two, one, "--for", one); !strings.Contains(out, "and is for this very key") {
		t.Errorf("%s", out)
	}
	for _, c := range []struct{ words, args string }{
		{"for another key", genuine + " --for " + two},
		{"not traced to a trusted maker", genuine + " --root " + one},
		{"malformed attestation", one},
		{"1 of 2 attestations are not verified", genuine + " " + mixed},
	} {
		code, _, errs := b.run(append([]string{"attestation", "verify"}, strings.Fields(c.args)...)...)
		if code != 1 || !strings.Contains(errs, c.words) {
			t.Errorf("%s: exit code %d, %q", c.args, code, errs)
		}
	}
	b.fails(2, "give the statement's and the device's", "attestation", "verify", genuine, one)
}
