package hsm_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

const pin = "s3cr3t-314159"

func TestSecretNeverShows(t *testing.T) {
	s := hsm.NewSecret([]byte(pin))
	type outer struct {
		Public  *hsm.Secret
		private *hsm.Secret
		Value   hsm.Secret
		hidden  hsm.Secret
	}
	o := outer{s, s, *s, *s}
	var shown []string
	show := func(text string) { shown = append(shown, text) }
	for _, verb := range strings.Fields("%v %+v %#v %s %q %x %X % x %#x %d %o %b %c %U %t %e %p %T %10.3s") {
		for _, v := range []any{s, *s, o, &o, []*hsm.Secret{s}, []hsm.Secret{*s}, map[string]*hsm.Secret{"a": s},
			fmt.Errorf("%v", s)} {
			show(fmt.Sprintf(verb, v))
		}
	}
	show(fmt.Sprint(s, *s, o))
	for _, v := range []any{s, *s, o, &o, map[string]any{"a": s}} {
		b, err := json.Marshal(v)
		must.OK(t, err)
		show(string(b))
	}
	b, err := xml.Marshal(s)
	must.OK(t, err)
	show(string(b))
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		l := slog.New(h)
		l.Info("x", "a", s, "b", *s, "c", o, "d", &o, slog.Group("g", "e", s))
	}
	show(log.String())
	encodings := []string{pin, fmt.Sprintf("%x", pin), fmt.Sprintf("%X", pin), fmt.Sprintf("% x", pin),
		fmt.Sprintf("%d", []byte(pin))[1:20]}
	for _, text := range shown {
		for _, e := range encodings {
			if strings.Contains(text, e) {
				t.Errorf("shown: %.80s", text)
			}
		}
	}
	if got := fmt.Sprintf("%v|%s|%#v|%x", s, s, s, s); got != "[redacted]|[redacted]|[redacted]|[redacted]" {
		t.Errorf("printed as %s", got)
	}
	if string(s.Bytes()) != pin || s.Unsafe() != pin || s.Len() != len(pin) {
		t.Error("the secret itself is lost")
	}
}

// TestNewTyped: the marks around a paste are no part of a secret, and the memory behind them is
// overwritten with it.
func TestNewTyped(t *testing.T) {
	for in, want := range map[string]string{
		"123456": "123456", "": "", "\x1b[200~123456\x1b[201~": "123456", "12\x1b[200~34\x1b[201~\x1b[200~56\x1b[201~": "123456",
		"12\x1b[2003456": "12\x1b[2003456",
	} {
		memory := []byte(in)
		s := hsm.NewTyped(memory)
		if string(s.Bytes()) != want {
			t.Errorf("%q is %q", in, s.Bytes())
		}
		s.Zero()
		if !bytes.Equal(memory, make([]byte, len(in))) {
			t.Errorf("left in memory: %q", memory)
		}
	}
}

func TestSecretZero(t *testing.T) {
	memory := []byte(pin)
	s := hsm.NewSecret(memory[:5])
	c := s.Clone()
	s.Zero()
	s.Zero()
	if !bytes.Equal(memory, make([]byte, len(pin))) {
		t.Errorf("left in memory: %q", memory)
	}
	if s.Len() != 0 || s.Bytes() != nil || s.Unsafe() != "" {
		t.Error("not empty after Zero")
	}
	if string(c.Bytes()) != pin[:5] {
		t.Error("the clone went with it")
	}
	for _, empty := range []*hsm.Secret{nil, {}, hsm.NewSecret(nil)} {
		empty.Zero()
		if empty.Len() != 0 || len(empty.Bytes()) != 0 || empty.Unsafe() != "" || empty.Clone().Len() != 0 {
			t.Error("an empty secret is not empty")
		}
		_ = fmt.Sprint(empty)
	}
}
