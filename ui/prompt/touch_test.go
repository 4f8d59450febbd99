//go:build unix

package prompt

import (
	"io"
	"os"
	"strings"
	"testing"
)

const touchLineText = `Touch the token "Ada's key" (serial 1234567) to sign in to prod`

// startTouch runs a child whose stdin tells it to go on.
func startTouch(t *testing.T, mode string, env ...string) (s *screen, next func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	cmd := child(mode, env...)
	cmd.Stdin = r
	return start(t, cmd), func() {
		t.Helper()
		if _, err := io.WriteString(w, "\n"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTouch(t *testing.T) {
	s, next := startTouch(t, "touch")
	s.expect(touchLineText)
	s.expect("\a") // after five seconds
	next()
	s.expect("RESULT touched")
	s.gone("Touch")
	s.restored()
}

// TestTouchTellsTheDesktop: a terminal that can does so when the bell rings.
func TestTouchTellsTheDesktop(t *testing.T) {
	s, next := startTouch(t, "touch", "KITTY_WINDOW_ID=1", "TMUX=", "STY=")
	s.expect("\a\x1b]99;i=kubehsm:o=unfocused;" + touchLineText)
	next()
	s.expect("RESULT touched")
	s.gone("Touch")
}

func TestTouchDoneAtOnce(t *testing.T) {
	s, next := startTouch(t, "touch")
	next()
	s.expect("RESULT touched")
	if strings.Contains(s.output(), "Touch") && !strings.Contains(s.output(), "\x1b[K") {
		t.Errorf("the line was left: %q", s.output())
	}
}

func TestTouchIsHiddenWhileAPINIsAsked(t *testing.T) {
	s, next := startTouch(t, "touch:pin")
	s.expect(touchLineText)
	next()
	s.asking(pinLabel)
	s.gone("Touch")
	s.typed("271828\n")
	s.expect("Touch", 2)
	next()
	s.expect("RESULT touched")
	s.gone("Touch")
	s.expect("RESULT pin " + digest("271828"))
}

func TestTouchOnADumbTerminal(t *testing.T) {
	s, next := startTouch(t, "touch", "TERM=dumb")
	s.expect(touchLineText)
	next()
	s.expect("RESULT touched")
	s.never("\x1b")
}
