package enroll

import (
	"context"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// typist answers PIN prompts and counts them.
type typist struct {
	hsm.Prompter
	asked int
}

func (t *typist) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	t.asked++
	return hsm.NewSecret([]byte("123456")), nil
}

func prompt(serial, again string) hsm.PINPrompt {
	return hsm.PINPrompt{Kind: hsm.UserPIN, Token: hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Serial: serial}, Again: again}
}

func TestOnePIN(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name   string
		prove  bool
		second hsm.PINPrompt
		asked  int
	}{
		{"a PIN the token took serves once more", true, prompt("a", ""), 1},
		{"an unproven PIN is not tried again", false, prompt("a", ""), 2},
		{"a refused PIN is not tried again", true, prompt("a", "wrong PIN"), 2},
		{"another token's PIN is asked for", true, prompt("b", ""), 2},
		{"another kind of secret is asked for", true, hsm.PINPrompt{Kind: hsm.PUK, Token: prompt("a", "").Token}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			typist := &typist{}
			pins := newOnePIN()
			o := pins.before(ask.From(typist))
			first, err := o.PIN(ctx, prompt("a", ""))
			if err != nil {
				t.Fatal(err)
			}
			first.Zero() // the driver zeroes what it was given
			if tc.prove {
				pins.prove()
			}
			second, err := o.PIN(ctx, tc.second)
			if err != nil {
				t.Fatal(err)
			}
			if string(second.Bytes()) != "123456" {
				t.Errorf("second PIN is %q", second.Bytes())
			}
			if typist.asked != tc.asked {
				t.Errorf("asked %d times, want %d", typist.asked, tc.asked)
			}
		})
	}
	t.Run("it serves one second use, not two", func(t *testing.T) {
		typist := &typist{}
		pins := newOnePIN()
		o := pins.before(ask.From(typist))
		for range 3 {
			pin, err := o.PIN(ctx, prompt("a", ""))
			if err != nil {
				t.Fatal(err)
			}
			pin.Zero()
			pins.prove()
		}
		if typist.asked != 2 {
			t.Errorf("asked %d times, want 2", typist.asked)
		}
	})
	t.Run("zero forgets", func(t *testing.T) {
		typist := &typist{}
		pins := newOnePIN()
		o := pins.before(ask.From(typist))
		if _, err := o.PIN(ctx, prompt("a", "")); err != nil {
			t.Fatal(err)
		}
		pins.prove()
		pins.zero()
		if len(pins.kept) != 0 {
			t.Error("a PIN is still kept")
		}
	})
}
