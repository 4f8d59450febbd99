package hsm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// lockable is a PIN with a counter.
type lockable struct {
	info  hsm.TokenInfo
	pin   string
	tried []string
	kept  []*hsm.Secret
}

func newLockable(tries int) *lockable {
	return &lockable{pin: "123456", info: hsm.TokenInfo{Label: "tok",
		PIN: hsm.PINState{Retries: tries, MinLen: 6, MaxLen: 8}}}
}

func (l *lockable) state() (hsm.TokenInfo, error) { return l.info, nil }

func (l *lockable) try(pin *hsm.Secret) error {
	l.tried = append(l.tried, string(pin.Bytes()))
	l.kept = append(l.kept, pin)
	if string(pin.Bytes()) == l.pin {
		return nil
	}
	if l.info.PIN.Retries > 0 {
		l.info.PIN.Retries--
		l.info.PIN.Locked = l.info.PIN.Retries == 0
	}
	return &hsm.PINError{Kind: hsm.PIVPIN, Retries: l.info.PIN.Retries}
}

func TestAskPIN(t *testing.T) {
	const otp = "cccccckdvvulgjvtkjdhtlrbjjctggdihuevikehtlil"
	right, wrong := hsmtest.PIN("123456"), hsmtest.PIN("654321")
	for _, c := range []struct {
		name    string
		tries   int
		answers []hsmtest.Answer
		want    error
		tried   int
	}{
		{"right", 3, []hsmtest.Answer{right}, nil, 1},
		{"wrong, then right", 3, []hsmtest.Answer{wrong, right}, nil, 2},
		{"three times wrong", 5, []hsmtest.Answer{wrong, wrong, wrong}, hsm.ErrPINIncorrect, 3},
		{"counter unknown", -1, []hsmtest.Answer{wrong, wrong, wrong}, hsm.ErrPINIncorrect, 3},
		{"last try, declined", 1, []hsmtest.Answer{hsmtest.No()}, hsm.ErrCancelled, 0},
		{"last try, used", 1, []hsmtest.Answer{hsmtest.Yes(), right}, nil, 1},
		{"last try, wasted", 1, []hsmtest.Answer{hsmtest.Yes(), wrong}, hsm.ErrPINLocked, 1},
		{"down to the last try", 3, []hsmtest.Answer{wrong, wrong, hsmtest.No()}, hsm.ErrCancelled, 2},
		{"last try, nobody to confirm", 1, []hsmtest.Answer{hsmtest.Fail(hsm.ErrNoTerminal)}, hsm.ErrNoTerminal, 0},
		{"locked", 0, nil, hsm.ErrPINLocked, 0},
		{"cancelled", 3, []hsmtest.Answer{hsmtest.Cancel()}, hsm.ErrCancelled, 0},
		{"cancelled after a wrong one", 3, []hsmtest.Answer{wrong, hsmtest.Cancel()}, hsm.ErrCancelled, 1},
		{"no terminal", 3, []hsmtest.Answer{hsmtest.Fail(hsm.ErrNoTerminal)}, hsm.ErrNoTerminal, 0},
		{"one-time password", 3, []hsmtest.Answer{hsmtest.PIN(otp), right}, nil, 1},
		{"empty, short, then right", 3, []hsmtest.Answer{hsmtest.PIN(""), hsmtest.PIN("12345"), right}, nil, 1},
		{"never usable", 3, []hsmtest.Answer{hsmtest.PIN("123456789"), hsmtest.PIN(otp), hsmtest.PIN("1")}, hsm.ErrPINInvalid, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLockable(c.tries)
			l.info.PIN.Locked = c.tries == 0
			p := hsmtest.NewScript(t, c.answers...)
			err := hsm.AskPIN(t.Context(), p, hsm.PIVPIN, l.state, l.try)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if len(l.tried) != c.tried {
				t.Errorf("tried %q, want %d", l.tried, c.tried)
			}
			for _, s := range l.kept {
				if s.Len() != 0 {
					t.Error("a PIN was not zeroed")
				}
			}
			for i, asked := range p.PINs() {
				if (asked.Again != "") != (i > 0) || asked.Token.Label != "tok" || asked.Kind != hsm.PIVPIN {
					t.Errorf("prompt %d: %+v", i, asked)
				}
			}
		})
	}
}

func TestAskPINEdges(t *testing.T) {
	l := newLockable(3)
	if err := hsm.AskPIN(t.Context(), nil, hsm.UserPIN, l.state, l.try); !errors.Is(err, hsm.ErrPINRequired) {
		t.Errorf("nobody to ask: %v", err)
	}
	boom := errors.New("boom")
	err := hsm.AskPIN(t.Context(), hsmtest.NewScript(t), hsm.UserPIN,
		func() (hsm.TokenInfo, error) { return hsm.TokenInfo{}, boom }, l.try)
	if !errors.Is(err, boom) {
		t.Errorf("no state: %v", err)
	}
	err = hsm.AskPIN(t.Context(), hsmtest.NewScript(t, hsmtest.PIN("123456")), hsm.UserPIN, l.state,
		func(*hsm.Secret) error { return boom })
	if !errors.Is(err, boom) {
		t.Errorf("the token fails: %v", err)
	}
	l.info.PIN.NotSet = true
	err = hsm.AskPIN(t.Context(), hsmtest.NewScript(t), hsm.UserPIN, l.state, l.try)
	if !errors.Is(err, hsm.ErrPINNotSet) || hint.Of(err) == "" {
		t.Errorf("no PIN set: %v", err)
	}
	l = newLockable(3)
	l.info.PIN.Final = true // PKCS#11 tells no number
	if err := hsm.AskPIN(t.Context(), hsmtest.NewScript(t, hsmtest.No()), hsm.UserPIN, l.state, l.try); !errors.Is(err,
		hsm.ErrCancelled) {
		t.Errorf("final try: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	up := make(chan struct{})
	go func() { <-up; cancel() }()
	if err := hsm.AskPIN(ctx, hsmtest.NewScript(t, hsmtest.Hang(up)), hsm.UserPIN, l2().state, l.try); !errors.Is(err,
		context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if len(l.tried) != 0 {
		t.Errorf("tried %q", l.tried)
	}
}

// TestAskPINOfEveryKind: nobody is asked for a blocked secret of any kind, and the last try
// of each kind has a question of its own. Error and question name the secret.
func TestAskPINOfEveryKind(t *testing.T) {
	for kind, says := range map[hsm.PINKind]struct{ last, blocked, hint string }{
		hsm.UserPIN: {`for the PIN of token "tok". A wrong one blocks it.`, `token "tok": `, "token pin unblock"},
		hsm.PIVPIN:  {`for the PIV PIN of token "tok". A wrong one blocks it.`, `token "tok": `, "token pin unblock"},
		hsm.PUK: {"for the PUK. A wrong one blocks it for good.", "the PUK is blocked",
			"only a reset of the PIV application"},
		hsm.SOPIN: {`for the SO PIN of token "tok". A wrong one blocks it.`, `the SO PIN of token "tok" is blocked`,
			"the maker's tools"},
	} {
		l := newLockable(1)
		p := hsmtest.NewScript(t, hsmtest.No())
		err := hsm.AskPIN(t.Context(), p, kind, l.state, l.try)
		if asked := p.Prompts(); !errors.Is(err, hsm.ErrCancelled) || len(asked) != 1 ||
			!strings.HasSuffix(asked[0].Confirm.Detail, says.last) {
			t.Errorf("the last try of the %s: %v, asked %+v", kind, err, asked)
		}
		l.info.PIN = hsm.PINState{Retries: 0, Locked: true}
		err = hsm.AskPIN(t.Context(), hsmtest.NewScript(t), kind, l.state, l.try)
		if !errors.Is(err, hsm.ErrPINLocked) || !strings.HasPrefix(err.Error(), says.blocked) ||
			!strings.Contains(hint.Of(err), says.hint) {
			t.Errorf("the blocked %s: %v, hint %q", kind, err, hint.Of(err))
		}
		if len(l.tried) != 0 {
			t.Errorf("tried %q", l.tried)
		}
	}
}

// TestAskNewPIN: a new PIN that does not fit is zeroed and asked for again, three times in
// all.
func TestAskNewPIN(t *testing.T) {
	info := newLockable(3).info
	fit := func(s *hsm.Secret) error {
		if s.Unsafe() == "123456" {
			return hsm.ErrPINInvalid
		}
		return nil
	}
	p := hsmtest.NewScript(t, hsmtest.PIN("1"), hsmtest.PIN("123456"), hsmtest.PIN("246802"))
	fresh, err := hsm.AskNewPIN(t.Context(), p, hsm.PUK, info, fit)
	if err != nil || fresh.Unsafe() != "246802" {
		t.Fatalf("%v", err)
	}
	for i, asked := range p.PINs() {
		if !asked.New || asked.Kind != hsm.PUK || asked.Retries != -1 || (asked.Again != "") != (i > 0) {
			t.Errorf("prompt %d: %+v", i, asked)
		}
	}
	var seen []*hsm.Secret
	p = hsmtest.NewScript(t, hsmtest.PIN("111111"), hsmtest.PIN("222222"), hsmtest.PIN("333333"))
	fresh, err = hsm.AskNewPIN(t.Context(), p, hsm.UserPIN, info, func(s *hsm.Secret) error {
		seen = append(seen, s)
		return hsm.ErrPINInvalid
	})
	if !errors.Is(err, hsm.ErrPINInvalid) || fresh != nil || len(seen) != 3 {
		t.Errorf("never fit: %v, asked %d times", err, len(seen))
	}
	for _, s := range seen {
		if s.Len() != 0 {
			t.Error("a PIN was not zeroed")
		}
	}
	broken := errors.New("broken")
	p = hsmtest.NewScript(t, hsmtest.PIN("246802"))
	if _, err := hsm.AskNewPIN(t.Context(), p, hsm.UserPIN, info,
		func(*hsm.Secret) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("another error: %v", err)
	}
}

func l2() *lockable { return newLockable(3) }

// TestAskPINPad: for a PIN pad nothing is asked here, but told, and nothing is
// repeated.
func TestAskPINPad(t *testing.T) {
	l := newLockable(3)
	l.info.PIN.PINPad = true
	calls := 0
	p := hsmtest.NewScript(t)
	err := hsm.AskPIN(t.Context(), p, hsm.UserPIN, l.state, func(pin *hsm.Secret) error {
		calls++
		if told := p.Prompts(); p.Waiting() != 1 || told[len(told)-1].Touch.Pad != hsm.UserPIN {
			t.Errorf("told of %+v", told)
		}
		if pin != nil {
			t.Error("a PIN out of nowhere")
		}
		return &hsm.PINError{Kind: hsm.UserPIN, Retries: 2}
	})
	if !errors.Is(err, hsm.ErrPINIncorrect) || calls != 1 || p.Waiting() != 0 {
		t.Errorf("%v after %d tries, %d lines left", err, calls, p.Waiting())
	}
}

func TestCheckPIN(t *testing.T) {
	for kind, unfit := range map[hsm.PINKind][]string{
		hsm.PIVPIN: {"12345\t", "\x1b[200~1", "12345\xff"}, hsm.PUK: {"12345678\x00"}, hsm.UserPIN: {"se\tcret", "secret\u0085"},
		hsm.SOPIN: {"secret\r"}, hsm.ManagementKey: {"0102\n"},
	} {
		for _, in := range unfit {
			if err := hsm.CheckPIN(kind, hsm.NewSecret([]byte(in)), hsm.PINState{}); !errors.Is(err, hsm.ErrPINInvalid) ||
				!strings.Contains(err.Error(), "control character") {
				t.Errorf("%s %q: %v", kind, in, err)
			}
		}
	}
	for kind, in := range map[hsm.PINKind]string{hsm.UserPIN: "Straße 7 \xe4\xff", hsm.PIVPIN: "größe", "ticket": "a\nb\n"} {
		if err := hsm.CheckPIN(kind, hsm.NewSecret([]byte(in)), hsm.PINState{}); err != nil {
			t.Errorf("%s %q: %v", kind, in, err)
		}
	}
	for in, ok := range map[string]bool{
		"123456": true, "": false, "12345": false, "123456789": false,
		strings.Repeat("c", 44): false, strings.Repeat("c", 31): true, strings.Repeat("a", 44): true,
	} {
		s := hsm.PINState{}
		if len(in) < 20 {
			s = hsm.PINState{MinLen: 6, MaxLen: 8}
		}
		err := hsm.CheckPIN(hsm.PIVPIN, hsm.NewSecret([]byte(in)), s)
		if (err == nil) != ok || (err != nil && !errors.Is(err, hsm.ErrPINInvalid)) {
			t.Errorf("%q: %v", in, err)
		}
		if err != nil && len(in) > 0 && strings.Contains(err.Error(), in) {
			t.Errorf("the error shows the PIN: %v", err)
		}
	}
}

// TestTriesSpentMeanwhile: a PIN that was typed while another program spent tries
// is not presented; it is asked for as things are then.
func TestTriesSpentMeanwhile(t *testing.T) {
	for left, answers := range map[int][]hsmtest.Answer{
		2: {hsmtest.PIN("654321"), hsmtest.PIN("123456")},
		1: {hsmtest.PIN("654321"), hsmtest.Yes(), hsmtest.PIN("123456")}, // the last one has a question of its own
		0: {hsmtest.PIN("654321")},
	} {
		l := newLockable(3)
		var asked hsm.PINState
		state := func() (hsm.TokenInfo, error) { asked = l.info.PIN; return l.info, nil }
		p := hsmtest.NewScript(t, answers...)
		err := hsm.AskPIN(t.Context(), p, hsm.PIVPIN, state, func(pin *hsm.Secret) error {
			l.info.PIN.Retries, l.info.PIN.Locked, l.info.PIN.Final = left, left == 0, left == 1
			if err := hsm.CheckTries(asked, l.info.PIN); err != nil {
				return err
			}
			return l.try(pin)
		})
		if want := map[int]error{0: hsm.ErrPINLocked}[left]; !errors.Is(err, want) {
			t.Errorf("%d left: %v", left, err)
		}
		if want := map[int]string{1: "123456", 2: "123456"}[left]; strings.Join(l.tried, " ") != want {
			t.Errorf("%d left: tried %q", left, l.tried)
		}
		if again := p.PINs()[len(p.PINs())-1].Again; again != "" { // the prompt after a refused PIN
			t.Errorf("%d left: %q", left, again)
		}
	}
	if hsm.CheckTries(hsm.PINState{Retries: 1, Final: true}, hsm.PINState{Retries: 3}) != nil ||
		hsm.CheckTries(hsm.PINState{Retries: 3}, hsm.PINState{Retries: -1}) != nil {
		t.Error("as many tries, or who knows how many, are fewer")
	}
}

// TestCheckTries: a PIN that was asked for is not presented when tries were spent since, or
// when the default one is not in force any more.
func TestCheckTries(t *testing.T) {
	for name, c := range map[string]struct {
		asked, now hsm.PINState
		refused    bool
	}{
		"as it was":            {hsm.PINState{Retries: 3, Default: true}, hsm.PINState{Retries: 3, Default: true}, false},
		"a try was spent":      {hsm.PINState{Retries: 3}, hsm.PINState{Retries: 2}, true},
		"it was changed":       {hsm.PINState{Retries: 3, Default: true}, hsm.PINState{Retries: 3}, true},
		"it was reset":         {hsm.PINState{Retries: 3}, hsm.PINState{Retries: 3, Default: true}, false},
		"it was blocked":       {hsm.PINState{Retries: -1}, hsm.PINState{Retries: -1, Locked: true}, true},
		"the last try is left": {hsm.PINState{Retries: -1}, hsm.PINState{Retries: -1, Final: true}, true},
	} {
		if err := hsm.CheckTries(c.asked, c.now); errors.Is(err, hsm.ErrPINInvalid) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
