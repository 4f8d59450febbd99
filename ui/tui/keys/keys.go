// Package keys holds the key map that every screen and dialog of the terminal
// UI uses, so that a key means the same everywhere.
package keys

import "charm.land/bubbles/v2/key"

// Map is the key map. It is passed to screens, never global.
type Map struct {
	Up, Down, Left, Right, PageUp, PageDown, Home, End key.Binding

	Enter, Back, Quit, Leave, Help, Filter   key.Binding
	Next, Prev                               key.Binding
	Refresh, Copy, CopyPrint, Command, Retry key.Binding
	Enroll, Resume, Anew, Suspend            key.Binding
	Yes, No                                  key.Binding
	Palette, Sections                        key.Binding

	// What is dangerous, or goes from everywhere, has a letter that means nothing else on
	// any screen.
	Lock, Unlock, Stop        key.Binding // the agent and its tokens
	Delete, Reset, Revoke     key.Binding // actions that cannot be undone
	Approve, Deny, BreakGlass key.Binding // access for others, and for emergencies
}

// Default returns the key map: arrows and vi's letters, and what k9s, lazygit
// and gh have taught.
func Default() Map {
	b := func(keys []string, show, does string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(show, does))
	}
	return Map{
		Up:        b([]string{"up", "k"}, "↑/k", "up"),
		Down:      b([]string{"down", "j"}, "↓/j", "down"),
		Left:      b([]string{"left", "h"}, "←/h", "left"),
		Right:     b([]string{"right", "l"}, "→/l", "right"),
		PageUp:    b([]string{"pgup", "ctrl+b", "ctrl+u"}, "pgup", "page up"),
		PageDown:  b([]string{"pgdown", "ctrl+f", "ctrl+d"}, "pgdn", "page down"),
		Home:      b([]string{"home", "g"}, "g", "top"),
		End:       b([]string{"end", "G"}, "G", "bottom"),
		Enter:     b([]string{"enter"}, "enter", "choose"),
		Back:      b([]string{"esc"}, "esc", "back"),
		Quit:      b([]string{"q"}, "q", "quit"),
		Leave:     b([]string{"ctrl+c"}, "ctrl+c", "leave"),
		Help:      b([]string{"?"}, "?", "help"),
		Filter:    b([]string{"/"}, "/", "filter"),
		Next:      b([]string{"tab"}, "tab", "next"),
		Prev:      b([]string{"shift+tab"}, "shift+tab", "previous"),
		Refresh:   b([]string{"r"}, "r", "refresh"),
		Copy:      b([]string{"c"}, "c", "copy"),
		CopyPrint: b([]string{"f"}, "f", "copy fingerprint"),
		Command:   b([]string{"x"}, "x", "show command"),
		Retry:     b([]string{"r"}, "r", "try again"),
		Enroll:    b([]string{"e"}, "e", "enroll"),
		Suspend:   b([]string{"ctrl+z"}, "ctrl+z", "suspend"),
		Resume:    b([]string{"R"}, "R", "resume"),
		Palette:   b([]string{":", "ctrl+p"}, ":", "commands"),
		Sections:  b([]string{"0", "1", "2", "3", "4", "5", "6"}, "0-6", "screens"),
		Anew:      b([]string{"a"}, "a", "start over"),
		Yes:       b([]string{"y"}, "y", "yes"),
		No:        b([]string{"n"}, "n", "no"),

		Lock: b([]string{"L"}, "L", "lock"), Unlock: b([]string{"U"}, "U", "unlock"),
		Stop: b([]string{"S"}, "S", "stop the agent"), Delete: b([]string{"D"}, "D", "delete"),
		Reset: b([]string{"X"}, "X", "reset the token"), Revoke: b([]string{"W"}, "W", "revoke access"),
		Approve: b([]string{"a"}, "a", "approve"), Deny: b([]string{"d"}, "d", "deny"),
		BreakGlass: b([]string{"B"}, "B", "request emergency access"),
	}
}

// As returns b with other help text: the same key, said in a screen's own words.
func As(b key.Binding, does string) key.Binding {
	b.SetHelp(b.Help().Key, does)
	return b
}

// Shown returns b with other help, keys and text.
func Shown(b key.Binding, show, does string) key.Binding {
	b.SetHelp(show, does)
	return b
}

// Letter is a key of one screen only.
func Letter(k, does string) key.Binding {
	return key.NewBinding(key.WithKeys(k), key.WithHelp(k, does))
}
