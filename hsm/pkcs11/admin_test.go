//go:build cgo

package pkcs11

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

const (
	testSOPIN = "12345678" // hsmtest's
	freshPIN  = "161803"
)

// once types a PIN and gives up after.
type once struct{ *hsm.Secret }

func (o once) PIN(_ context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	if p.Again != "" {
		return nil, hsm.ErrCancelled
	}
	return o.Secret, nil
}
func (once) Touch(context.Context, hsm.TouchPrompt) func()            { return func() {} }
func (once) Confirm(context.Context, hsm.ConfirmPrompt) (bool, error) { return false, hsm.ErrCancelled }

// takes tells whether the token takes the PIN.
func takes(t *testing.T, tok hsm.Token, pin string) bool {
	t.Helper()
	must.OK(t, tok.Lock())
	return tok.Unlock(t.Context(), once{hsm.NewSecret([]byte(pin))}) == nil
}

func TestChangePIN(t *testing.T) {
	d, _ := softHSM(t)
	tok := openToken(t, d)
	slot := generateKey(t, tok, hsm.GenerateOptions{Label: "prod"}) // logged in: it must not matter
	p := hsmtest.NewScript(t, hsmtest.PIN("999999"), hsmtest.PIN("1"), hsmtest.PIN(freshPIN), hsmtest.PIN(testPIN))
	must.OK(t, tok.ChangePIN(t.Context(), hsm.UserPIN, p))
	asked := p.PINs()
	if len(asked) != 4 || asked[0].New || !asked[1].New || asked[1].Kind != hsm.UserPIN || asked[2].Again == "" ||
		asked[3].Again != "wrong PIN" {
		t.Errorf("asked %+v", asked)
	}
	if takes(t, tok, testPIN) || !takes(t, tok, freshPIN) {
		t.Error("the PIN is not the new one")
	}
	if s, err := tok.Slot(t.Context(), slot.URI); err != nil || s.Key == nil {
		t.Errorf("the key is gone: %v", err)
	}
	if err := tok.ChangePIN(t.Context(), hsm.PUK, p); !errors.Is(err, hsm.ErrUnsupported) {
		t.Errorf("a PUK: %v", err)
	}
}

func TestUnblockAndChangeSOPIN(t *testing.T) {
	d, _ := softHSM(t)
	tok := openToken(t, d)
	must.OK(t, tok.Unlock(t.Context(), hsmtest.Typing(t, testPIN)))
	p := hsmtest.NewScript(t, hsmtest.PIN(testSOPIN), hsmtest.PIN("87654321"))
	must.OK(t, tok.ChangePIN(t.Context(), hsm.SOPIN, p))
	p = hsmtest.NewScript(t, hsmtest.PIN(testSOPIN), hsmtest.PIN(freshPIN), hsmtest.PIN("87654321"))
	must.OK(t, tok.Unblock(t.Context(), p))
	if asked := p.PINs(); asked[0].Kind != hsm.SOPIN || asked[1].Kind != hsm.UserPIN || asked[2].Again != "wrong SO PIN" {
		t.Errorf("asked %+v", asked)
	}
	if takes(t, tok, testPIN) || !takes(t, tok, freshPIN) {
		t.Error("the PIN is not the new one")
	}
}

// robbed is a person during whose first answer somebody else does something.
type robbed struct {
	*hsmtest.Script
	meanwhile func()
}

func (r *robbed) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	if r.meanwhile != nil {
		r.meanwhile()
		r.meanwhile = nil
	}
	return r.Script.PIN(ctx, p)
}

// TestSOTriesSpentMeanwhile: an SO PIN that was typed while another program spent a
// try is asked for again, not presented, as what is left may need a yes of its own.
func TestSOTriesSpentMeanwhile(t *testing.T) {
	d, soft := softHSM(t)
	tok := openToken(t, d)
	person := &robbed{Script: hsmtest.NewScript(t, hsmtest.PIN(testSOPIN), hsmtest.PIN(freshPIN), hsmtest.PIN(testSOPIN),
		hsmtest.PIN(freshPIN))}
	person.meanwhile = func() {
		cmd := exec.CommandContext(t.Context(), need.Program(t, "pkcs11-tool"), "--module", soft.Module, "--token-label",
			testLabel,
			"--login", "--login-type", "so", "--so-pin", "00000000", "--init-pin", "--new-pin", "0000")
		cmd.Env = os.Environ()
		for name, value := range soft.Env() {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), "CKR_PIN_INCORRECT") {
			t.Errorf("no try was used: %v\n%s", err, out)
		}
	}
	must.OK(t, tok.Unblock(t.Context(), person))
	if asked := person.PINs(); len(asked) != 4 || asked[2].Kind != hsm.SOPIN || strings.Contains(asked[2].Again, "wrong") {
		t.Errorf("asked %+v", asked)
	}
	if !takes(t, tok, freshPIN) {
		t.Error("the PIN is not the new one")
	}
}

// TestGiveUpChange: who does not type a new PIN keeps the old one.
func TestGiveUpChange(t *testing.T) {
	d, _ := softHSM(t)
	tok := openToken(t, d)
	p := hsmtest.NewScript(t, hsmtest.PIN(testPIN), hsmtest.Cancel())
	if err := tok.ChangePIN(t.Context(), hsm.UserPIN, p); !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("%v", err)
	}
	if !takes(t, tok, testPIN) {
		t.Error("the PIN was changed")
	}
}

func TestInitialize(t *testing.T) {
	d, _ := softHSM(t)
	used := tokenURI(t, d, testLabel)
	tok := openToken(t, d)
	generateKey(t, tok, hsm.GenerateOptions{Label: "prod"})
	blank := hsm.URI{Scheme: hsm.SchemePKCS11, Model: "SoftHSM v2"}
	_, err := d.Initialize(t.Context(), used, hsm.InitializeOptions{Label: "mine"}, hsmtest.NewScript(t))
	if !errors.Is(err, hsm.ErrOccupied) {
		t.Errorf("a token in use: %v", err)
	}
	_, err = d.Initialize(t.Context(), blank, hsm.InitializeOptions{Label: "a label that is longer than 32 bytes"},
		hsmtest.NewScript(t))
	if err == nil {
		t.Error("a label of more than 32 bytes")
	}
	_, err = d.Initialize(t.Context(), blank, hsm.InitializeOptions{Label: "mine"},
		hsmtest.NewScript(t, hsmtest.PIN(testSOPIN), hsmtest.Cancel()))
	if !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("given up: %v", err)
	}
	p := hsmtest.NewScript(t, hsmtest.PIN("12341234"), hsmtest.PIN(freshPIN))
	info, err := d.Initialize(t.Context(), blank, hsm.InitializeOptions{Label: "mine"}, p)
	if err != nil || info.Label != "mine" || !info.Initialized || info.PIN.NotSet || info.Serial == "" {
		t.Fatalf("%+v, %v", info, err)
	}
	if asked := p.PINs(); !asked[0].New || asked[0].Kind != hsm.SOPIN || !asked[1].New || asked[1].Kind != hsm.UserPIN {
		t.Errorf("asked %+v", asked)
	}
	mine, err := d.Open(t.Context(), info.URI())
	must.OK(t, err)
	if !takes(t, mine, freshPIN) {
		t.Error("the new token does not take its PIN")
	}
	if slots, err := tok.Slots(t.Context(), nil); err != nil || len(slots) != 1 {
		t.Errorf("the other token was touched: %d slots, %v", len(slots), err)
	}
	// Once more, over what is there: the SO PIN stays.
	p = hsmtest.NewScript(t, hsmtest.PIN("wrong-so"), hsmtest.PIN(testPIN), hsmtest.PIN("12341234"))
	again, err := d.Initialize(t.Context(), info.URI(), hsm.InitializeOptions{Label: "again", Erase: true}, p)
	if err != nil || again.Label != "again" || again.PIN.NotSet {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := mine.Slots(t.Context(), nil); err == nil {
		t.Error("the erased token can still be used")
	}
	back, err := d.Open(t.Context(), again.URI())
	if err != nil || !takes(t, back, testPIN) {
		t.Errorf("after erasing: %v", err)
	}
}
