package prompt

import "testing"

func TestNotice(t *testing.T) {
	const words = "Touch; it \x1b]0;evil\a blinks\u009d"
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"TERM": "xterm-kitty"}, "\x1b]99;i=kubehsm:o=unfocused;Touch; it ]0;evil blinks\x1b\\"},
		{map[string]string{"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x1b]9;Touch; it ]0;evil blinks\x1b\\"},
		{map[string]string{"TERM": "foot"}, "\x1b]777;notify;kubehsm;Touch, it ]0,evil blinks\x1b\\"},
		{map[string]string{"TERM": "tmux-256color", "TMUX": "/x,1,0", "KITTY_WINDOW_ID": "1"}, "\x1bPtmux;\x1b\x1b]99;i=kubehsm:o=unfocused;Touch; it ]0;evil blinks\x1b\x1b\\\x1b\\"},
		{map[string]string{"TERM": "tmux-256color", "TMUX": "/x,1,0"}, ""},
		{map[string]string{"TERM": "xterm-256color"}, ""},
		{map[string]string{"TERM": "linux", "KITTY_WINDOW_ID": "1"}, ""},
		{map[string]string{"TERM": "screen", "STY": "1.x", "WEZTERM_PANE": "0"}, ""},
	} {
		if got := notice(func(k string) string { return c.env[k] }, words); got != c.want {
			t.Errorf("%v: %q, want %q", c.env, got, c.want)
		}
	}
}
