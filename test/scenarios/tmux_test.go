//go:build linux

package scenarios

import (
	"strconv"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestTmux walks the screens in a terminal that is not ours, as large and as
// small as people have them.
func TestTmux(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	p := u.pane(80, 24, u.Binary+"; echo code $?; exec cat")
	p.shows("1 Tokens", "jane")
	p.tmux("", "send-keys", "1")
	p.shows("1 Tokens", lab.Token, "jane", "e enroll")
	for _, size := range [][2]int{{80, 24}, {60, 15}, {200, 50}} {
		p.tmux("", "resize-window", "-x", strconv.Itoa(size[0]), "-y", strconv.Itoa(size[1]))
		screen := ""
		press := func(key, shows string) {
			t.Helper()
			p.tmux("", "send-keys", key)
			screen = p.shows(shows)
		}
		for _, step := range [][2]string{{"2", "● prod-"}, {"3", "request"}, {"4", "token"}, {"5", "new ticket"},
			{"6", "can sign in"}} {
			press(step[0], step[1])
		}
		for key, title := range map[string]string{"?": "╭─ Keys", ":": "╭─ Commands"} {
			press(key, title)
			p.tmux("", "send-keys", "Escape")
			poll.Until(t, "the dialog is closed", func() bool { return !strings.Contains(p.shows(), title) })
		}
		press("1", "e enroll")
		lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
		if len(lines) != size[1] || !strings.Contains(lines[len(lines)-1], "q quit") {
			t.Errorf("at %v the keys are not in the last line:\n%s", size, screen)
		}
	}
	p.tmux("", "send-keys", "q")
	if screen := p.shows("code 0"); strings.Contains(screen, "1 Tokens") {
		t.Errorf("the screen before was not put back:\n%s", screen)
	}
}
