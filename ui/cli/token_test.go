package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

// pinFD lets the program read a PIN from a descriptor, and returns its number.
func (b *bench) pinFD(pin string) {
	b.t.Helper()
	r, w, err := os.Pipe()
	must.OK(b.t, err)
	if _, err := w.WriteString(pin + "\n"); err != nil {
		b.t.Fatal(err)
	}
	must.OK(b.t, w.Close())
	p, done := prompt.FD(int(r.Fd()), prompt.None())
	b.t.Cleanup(func() { done(); _ = r.Close() })
	b.ask = p
}

func TestTokenList(t *testing.T) {
	b := newBench(t)
	b.fake.Add(hsmtest.FakeOptions{Label: "evil\x1b[2J\nname\u202e", Serial: "666"})
	b.fake.SetProblems(hsm.Problem{Source: "/lib/broken.so", Err: hint.With(hsm.ErrModule, "replace it")})
	code, out, errs := b.run("token", "list")
	if code != 0 || !strings.HasPrefix(out, "TOKEN ") || !strings.Contains(out, "\ntrial ") ||
		!strings.Contains(out, `evil\x1b[2J\nname\u202e`) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if !strings.Contains(errs, "note: /lib/broken.so: the token's driver library failed\nhint: replace it\n") {
		t.Errorf("the problem is not told: %q", errs)
	}
	doc := document(t, b.ok("token", "list", "-o", "json"))
	tokens := doc["tokens"].([]any)
	first := tokens[0].(map[string]any)
	if len(tokens) != 2 || first["label"] != "trial" || !strings.HasPrefix(first["uri"].(string), "pkcs11:token=trial;") ||
		first["initialized"] != true {
		t.Errorf("%v", doc)
	}
	problem := doc["problems"].([]any)[0].(map[string]any)
	if problem["source"] != "/lib/broken.so" || problem["hint"] != "replace it" || problem["message"] == "" {
		t.Errorf("%v", problem)
	}
}

func TestTokenListWithoutTokens(t *testing.T) {
	b := newBench(t)
	b.token.Unplug()
	code, out, errs := b.run("token", "list")
	if code != 0 || out != "" || !strings.Contains(errs, "No token found.") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if tokens := document(t, b.ok("token", "list", "-o", "json"))["tokens"].([]any); len(tokens) != 0 {
		t.Errorf("%v", tokens)
	}
}

// TestUnreadIsNotEmpty: what could not be read is not said to hold nothing, to
// people or scripts.
func TestUnreadIsNotEmpty(t *testing.T) {
	broken := hint.With(fmt.Errorf("%w: CKR_DEVICE_ERROR", hsm.ErrModule), "replace it")
	fails := func(b *bench, words string, args ...string) {
		t.Helper()
		code, out, errs := b.run(args...)
		if code != 1 || !strings.Contains(errs, words) || !strings.Contains(errs, "error: "+errUnread.Error()) {
			t.Errorf("%v: exit code %d, %q, %q", args, code, out, errs)
		}
		if strings.Contains(errs, "No ") {
			t.Errorf("%v: %s", args, errs)
		}
		if args[len(args)-1] == "json" && !strings.Contains(out, "CKR_DEVICE_ERROR") {
			t.Errorf("%v: the document does not say it: %s", args, out)
		}
		if len(args) == 2 && strings.Contains(out, " 0 ") {
			t.Errorf("%v: %s", args, out)
		}
	}
	everywhere := func(b *bench, words string) {
		t.Helper()
		for _, args := range [][]string{{"token", "list"}, {"key", "list"}, {"token", "list", "-o", "json"},
			{"key", "list", "-o", "json"}} {
			fails(b, words, args...)
		}
	}
	b := newBench(t)
	b.token.Fail(hsmtest.OpSlots, broken)
	everywhere(b, "note: trial: read token")
	b = newBench(t)
	b.token.Unplug()
	b.fake.SetProblems(hsm.Problem{Source: "/lib/broken.so", Err: broken})
	everywhere(b, "note: /lib/broken.so: ")
}

func TestKeyGenerateAndList(t *testing.T) {
	b := newBench(t)
	b.pinFD(testPIN)
	for _, flag := range []string{"--slot=9a", "--overwrite", "--touch-policy=always"} { // not silently left out
		b.fails(2, "this is for PIV cards", "key", "generate", "--label", "prod", flag)
	}
	made := document(t, b.ok("key", "generate", "--label", "prod", "-o", "json"))
	for _, field := range []string{"uri", "token", "id", "label", "algorithm", "fingerprint", "origin", "pinPolicy",
		"touchPolicy", "extractable"} {
		if _, ok := made[field]; !ok {
			t.Errorf("the documented field %q is missing: %v", field, made)
		}
	}
	if made["label"] != "prod" || made["algorithm"] != "ecdsa-p256" || made["extractable"] != false ||
		len(made["fingerprint"].(string)) != 64 {
		t.Errorf("%v", made)
	}
	keys := document(t, b.ok("key", "list", "--token", "pkcs11:token=trial", "-o", "json"))["keys"].([]any)
	if len(keys) != 1 || keys[0].(map[string]any)["fingerprint"] != made["fingerprint"] {
		t.Errorf("%v", keys)
	}
	if out := b.ok("key", "list"); !strings.Contains(out, "ecdsa-p256") || !strings.Contains(out, "object=prod") {
		t.Errorf("%s", out)
	}
	b.fails(3, "no such token", "key", "list", "--token", "pkcs11:token=other")
}

func TestKeyGenerateFailures(t *testing.T) {
	b := newBench(t)
	b.fails(5, "no terminal to ask on", "key", "generate")
	b.pinFD("wrong-pin")
	b.fails(4, "wrong PIN", "key", "generate")
	if tries := b.token.Tries(); tries != 2 {
		t.Errorf("a wrong PIN from a descriptor cost %d tries", 3-tries)
	}
	b.ask = hsmtest.NewScript(t, hsmtest.Cancel())
	b.fails(130, "cancelled", "key", "generate")
	b.fails(3, "no such token", "key", "generate", "--token", "pkcs11:token=other")
	b.token.Fail(hsmtest.OpGenerate, hsm.ErrUnsupported)
	b.ask = hsmtest.Typing(t, testPIN)
	b.fails(1, hsm.ErrUnsupported.Error(), "key", "generate")
	b.fake.Add(hsmtest.FakeOptions{Label: "second"})
	b.fails(1, "choose one with --token", "key", "generate")
	b.token.Unplug()
	b.fails(3, "no such token", "key", "generate", "--token", "pkcs11:token=trial")
}

func TestKeyOverwriteWantsTheSerial(t *testing.T) {
	b := newBench(t)
	b.fake = hsmtest.NewFake(hsm.SchemePIV)
	b.token = b.fake.Add(hsmtest.FakeOptions{Serial: "1234567", PIN: testPIN})
	b.ask = hsmtest.TypingAll(t, map[hsm.PINKind]string{hsm.PIVPIN: testPIN, hsm.ManagementKey: testPIN})
	b.ok("key", "generate", "--overwrite") // an empty slot: there is nothing to confirm
	b.fails(1, hsm.ErrOccupied.Error(), "key", "generate")
	script := hsmtest.NewScript(t, hsmtest.No())
	b.ask = script
	b.fails(130, "nothing was changed", "key", "generate", "--overwrite")
	asked := script.Prompts()
	if len(asked) != 1 || asked[0].Confirm == nil || asked[0].Confirm.Type != "1234567" {
		t.Errorf("asked %+v", asked)
	}
}

func TestErrorDocument(t *testing.T) {
	if errorDocOf(nil) != nil {
		t.Error("no error has a document")
	}
	if d := errorDocOf(hint.With(errors.New("a\x1b"), "b")); d.Message != `a\x1b` || d.Hint != "b" {
		t.Errorf("%+v", d)
	}
}
