package prompt

import "strings"

const maxNotice = 200

// notice is the sequence that makes this terminal show a desktop notification, "" if none is known.
// A terminal without one may print it.
func notice(getenv func(string) string, words string) string {
	term, program := getenv("TERM"), getenv("TERM_PROGRAM")
	if term == "linux" || getenv("STY") != "" { // the console; screen
		return ""
	}
	n := 0
	words = strings.Map(func(c rune) rune {
		if n++; c < ' ' || c >= 0x7f && c < 0xa0 || n > maxNotice {
			return -1
		}
		return c
	}, words)
	var s string
	switch {
	case term == "xterm-kitty" || getenv("KITTY_WINDOW_ID") != "":
		s = "\x1b]99;i=kubehsm:o=unfocused;" + words + "\x1b\\"
	case program == "iTerm.app" || getenv("LC_TERMINAL") == "iTerm2" || getenv("WEZTERM_PANE") != "" ||
		getenv("GHOSTTY_RESOURCES_DIR") != "":
		s = "\x1b]9;" + words + "\x1b\\"
	case strings.HasPrefix(term, "foot") || strings.HasPrefix(term, "rxvt"):
		s = "\x1b]777;notify;kubehsm;" + strings.ReplaceAll(words, ";", ",") + "\x1b\\"
	default:
		return ""
	}
	if getenv("TMUX") != "" { // tmux passes on what is wrapped so, if its user allows that (allow-passthrough)
		s = "\x1bPtmux;" + strings.ReplaceAll(s, "\x1b", "\x1b\x1b") + "\x1b\\"
	}
	return s
}
