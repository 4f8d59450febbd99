package vcard_test

// The card answers tools that are not ours: what it gets wrong, they refuse.

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// firmware543 is a version whose management key Debian's yubico-piv-tool knows
// (it predates AES keys).
func firmware543() vcard.Config { return vcard.Config{Firmware: [3]byte{5, 4, 3}, Serial: 7654321} }

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(need.Program(t, name), args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestYubicoPIVTool(t *testing.T) {
	lab := vcard.ForTest(t)
	card := vcard.New(firmware543())
	lab.Insert(t, 0, card)
	pub := filepath.Join(t.TempDir(), "pub.pem")
	output(t, "yubico-piv-tool", "-a", "generate", "-s", "9a", "-A", "ECCP256", "--touch-policy=cached", "-o", pub)
	b, err := os.ReadFile(pub)
	must.OK(t, err)
	block, _ := pem.Decode(b)
	if der, err := x509.MarshalPKIXPublicKey(card.Public(0x9a)); err != nil || block == nil ||
		!bytes.Equal(der, block.Bytes) {
		t.Fatalf("the tool read another key than the card has: %v\n%s", err, b)
	}
	attestation := output(t, "yubico-piv-tool", "-a", "attest", "-s", "9a")
	block, _ = pem.Decode([]byte(attestation))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || cert.Subject.CommonName != "YubiKey PIV Attestation 9a" {
		t.Fatalf("attestation %v: %v", cert, err)
	}
	output(t, "yubico-piv-tool", "-a", "change-pin", "-P", vcard.DefaultPIN, "-N", "654321")
	output(t, "yubico-piv-tool", "-a", "unblock-pin", "-P", vcard.DefaultPUK, "-N", "222222")
	if !card.CheckPIN("222222") {
		t.Error("unblock-pin did not set the PIN")
	}
	output(t, "yubico-piv-tool", "-a", "set-mgm-key", "-n", "010203040506070801020304050607080102030405060709")
	status := output(t, "yubico-piv-tool", "-a", "status")
	for _, want := range []string{"5.4.3", "7654321", "PIN tries left:\t3"} {
		if !strings.Contains(status, want) {
			t.Errorf("status lacks %q:\n%s", want, status)
		}
	}
}

func TestResetByYubicoPIVTool(t *testing.T) {
	lab := vcard.ForTest(t)
	card := vcard.New(firmware543())
	lab.Insert(t, 0, card)
	cmd := exec.Command(need.Program(t, "yubico-piv-tool"), "-a", "reset")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("a card that is not locked was reset:\n%s", out)
	}
	card.SetPIN("999999")
	for range 3 {
		if err := exec.Command("yubico-piv-tool", "-a", "verify-pin", "-P", "471112").Run(); err == nil {
			t.Fatal("a wrong PIN was accepted")
		}
		if err := exec.Command("yubico-piv-tool", "-a", "change-puk", "-P", "471112", "-N", "67567567").Run(); err == nil {
			t.Fatal("a wrong PUK was accepted")
		}
	}
	output(t, "yubico-piv-tool", "-a", "reset")
	if pin, puk := card.PINRetries(); pin != 3 || puk != 3 || !card.CheckPIN(vcard.DefaultPIN) {
		t.Errorf("after reset: %d PIN and %d PUK tries", pin, puk)
	}
}
