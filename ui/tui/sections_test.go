package tui_test

import (
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/ui/tui"
)

// TestSections walks between the screens of the top level.
func TestSections(t *testing.T) {
	w := newWorld(t) // no case changes it
	for _, c := range []struct {
		name string
		keys []string
		sees []string
		not  string
	}{
		{"each has a number", []string{"6"}, []string{"look again"}, "SLOT"},
		{"an unknown number does nothing", []string{"9"}, []string{"SLOT"}, ""},
		{"esc stays", []string{"4", "esc"}, []string{"The agent is not running"}, "SLOT"},
		{"a number is text in a filter", []string{"/", `"6"`}, []string{"/ 6"}, "WHAT"},
		{"a colon is text in a filter", []string{"/", `":"`}, []string{"/ :"}, "what do you want to do?"},
		{"ctrl-p is not", []string{"/", `"x"`, "ctrl+p"}, []string{"what do you want to do?"}, ""},
		{"the palette finds screens", []string{":", `"go help"`, "enter"}, []string{"STILL GOOD"}, "SLOT"},
		{"the palette finds commands of this screen", []string{":", `"key show"`},
			[]string{"open (kubehsm key show)"}, ""},
		{"the palette finds commands of other screens", []string{":", `"consent"`},
			[]string{"go to Contexts (kubehsm consent show)"}, ""},
		{"the palette finds a context as kubectx does", []string{":", `"ctx"`}, []string{"go to Contexts"}, ""},
		{"the palette finds approvals", []string{":", `"approve"`}, []string{"go to Requests (kubehsm csr approve)"}, ""},
		{"locking without an agent", []string{"2", "L"}, []string{"the agent is not running: no token is unlocked"}, ""},
		{"the palette finds consent", []string{"2", ":", `"consent"`},
			[]string{"consent policy (it is not kubehsm's)"}, ""},
		{"the palette presses keys", []string{":", `"command"`, "enter"}, []string{"kubehsm token list"}, ""},
		{"it says why not", []string{":", `"fingerprint"`}, []string{"copy fingerprint (there is no key)"}, ""},
		{"what is grey is not done", []string{":", `"fingerprint"`, "enter"}, []string{"Commands"}, "copied"},
		{"nothing matches", []string{":", `"zebra"`, "enter"}, []string{"Nothing matches."}, ""},
		{"esc closes it", []string{":", "esc"}, []string{"SLOT"}, "Commands"},
		{"help names it", []string{"?", "end"}, []string{"quit now"}, ""},
		{"help does what is under the cursor", []string{"?", "down", "down", "down", "down", "down", "down", "down", "enter"}, []string{"kubehsm token list"}, "Keys"},
		{"help does not do what is grey", []string{"?", "end", "enter"}, []string{"Keys"}, ""},
		{"help does what goes everywhere", []string{"?", "end", "up", "up", "up", "up", "up", "up", "up", "up", "up", "up", "up", "up", "enter"},
			[]string{"what do you want to do?"}, ""},
		{"a command of another screen", []string{":", `"new ticket"`, "enter"}, []string{"A ticket for one person"}, ""},
		{"a token's command", []string{"2", ":", `"pin trial"`, "enter"}, []string{"PIN of trial"}, ""},
		{"a slot's command", []string{"2", ":", `"certificate show 9c"`, "enter"}, []string{"YubiKey"}, ""},
		{"lines are edited as in a shell", []string{":", `"go to help xyz"`, "ctrl+w", "ctrl+a", `"x"`, "ctrl+d", "ctrl+u"},
			[]string{": o to help"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.open(100, 40)
			defer r.Close()
			atTokens(r)
			if keys, contexts := strings.CutPrefix(strings.Join(c.keys, "\n"), "2\n"); contexts {
				r.Press("2")
				r.Sees("staging") // the list is read: the palette opens on the row under the cursor
				c.keys = strings.Split(keys, "\n")
			}
			r.Press(c.keys...)
			r.Sees(c.sees...)
			if c.not != "" && strings.Contains(r.View(), c.not) {
				t.Errorf("the screen must not hold %q:\n%s", c.not, r.View())
			}
		})
	}
}

// TestPaletteFinds: a request that a screen has seen is approved from everywhere, by the
// user's name, with the closer look behind the question. A context is completed and made the
// current one.
func TestPaletteFinds(t *testing.T) {
	r := newWorld(t).open(100, 30)
	atRequests(r)
	r.Walk("1", ":", `"approve jane"`, "~approve kubehsm-jane-7x2kp", "enter", "~Approve it?", "~jane in dev", "esc",
		"~kubehsm-jane-7x2kp", "~Fingerprint", ":", `"approve nobody"`, "~Nothing matches.", "ctrl+u", `"ctx stag"`,
		"tab", "~: make current staging", "enter", "~Write this?", "~current-context: staging")
}

// TestNumbersAreTextInForms: a digit in a name is no way out of the wizard.
func TestNumbersAreTextInForms(t *testing.T) {
	r := newWorld(t).openWizard(100, 30)
	toSubject(r)
	r.Walk(`"jane2:q"`, "~jane2:q", "~Who is it for")
}

// at is the place of a text on the screen.
func (r *rig) at(text string) (x, y int) {
	r.T.Helper()
	for y, l := range strings.Split(r.View(), "\n") {
		if before, _, found := strings.Cut(l, text); found {
			return ansi.StringWidth(before), y
		}
	}
	r.T.Fatalf("no %q on the screen:\n%s", text, r.View())
	return 0, 0
}

func (r *rig) click(text string) {
	r.T.Helper()
	x, y := r.at(text)
	r.Send(tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft})
}

// TestMouse: the wheel moves as the arrows do; rows, screens, keys and answers are clicked. A
// second click on a row opens it. The mouse can be left to the terminal.
func TestMouse(t *testing.T) {
	w := newWorld(t)
	r := w.open(100, 30)
	atTokens(r)
	if r.Frame().MouseMode != tea.MouseModeCellMotion {
		t.Error("the mouse is off")
	}
	off := &rig{Rig: w.Start(100, 30, tui.Options{Environ: []string{"KUBEHSM_MOUSE=0"}}), world: w}
	if off.Frame().MouseMode != tea.MouseModeNone {
		t.Error("the mouse is on although the terminal has it")
	}
	r.Send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	r.Send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	r.Sees("Slot 9a on")
	r.Send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	r.Sees("▌ YubiKey")
	r.click("9c ")
	r.Sees("Slot 9c on")
	r.Send(tea.MouseClickMsg{X: 3, Y: 28, Button: tea.MouseLeft}) // an empty place
	r.click("9a ")
	r.click("9c ")
	r.Sees("Slot 9c on")
	r.click("9c ")
	r.Sees("PUK default", "Meant for")
	r.click("Tokens") // the way back
	r.Sees("Slot 9c on")
	r.click("Contexts")
	r.Sees("staging")
	r.click("? help")
	r.Sees("Everywhere")
	r.click("move to a token")
	r.Sees("▌         m")
	r.click("esc close")
	r.Loses("Everywhere")
	r.click("0 Home")
	r.click("enroll a key")
	r.Sees("Which token")
	r.click("YubiKey 5C")
	r.Walk("~▌ YubiKey 5C", "esc", "~5 Help desk")
	r.click("Help desk")
	r.Sees("jane, dev")
	r.click("t new ticket")
	r.Sees("A ticket for one person")
	r.click("Tickets")
	r.click("two")
	r.Walk("~● two", "esc")
	r.click("for the new rack")
	r.click("D delete")
	r.Sees("Nobody can use it any more")
	r.Send(tea.MouseWheelMsg{Button: tea.MouseWheelDown}) // not to the yes
	r.Walk("enter", "~cancelled")
	r.click("D delete")
	r.Sees("Nobody can use it any more")
	r.click("Yes")
	r.Sees("it is deleted")
}

// places are the screens, by name, and how to get there from the start.
func places() map[string]func(*rig) {
	return map[string]func(*rig){"home": func(r *rig) { atTokens(r); r.Press("0"); r.Sees("Context") }, "tokens": atTokens, "card": atToken,
		"PKCS#11 token": func(r *rig) { atTokens(r); r.Press("g", "enter"); r.Sees("change PIN") },
		"contexts":      atContexts, "requests": atRequests, "request": toLook, "activity": atActivity, "help desk": atDesk,
		"doctor": atDoctor}
}

// TestOneLetter: what is dangerous, or goes from everywhere, has one letter, which means
// nothing else on any screen. The footer shows only what can be done now, and is never cut.
func TestOneLetter(t *testing.T) {
	only := map[string][]string{ // letter: the commands that it stands for
		"D": {"key delete", "kubeconfig remove; unenroll", "csr cancel", "bootstrap-token delete"},
		"X": {"token reset", "token init"}, "S": {"agent stop"}, "L": {"agent lock"}, "U": {"unlock", ""},
		"W": {"helpdesk revoke"}, "B": {"breakglass request"}, "d": {"csr deny"},
		"a": {"csr approve", "csr approve; helpdesk approve; breakglass approve"},
	}
	words := map[string][]string{ // words of what every section offers
		"e": {
			"enroll",
			"enroll this key",
		}, "r": {"refresh", "look again", "try again"}, "/": {"filter"}, "f": {"copy fingerprint"},
		"x": {
			"show command",
		}, "?": {"help"}, ":": {"commands"}, "q": {"quit"}, "esc": {"back", "show all", "cancel", "clear"},
		"c": {"copy URI", "copy name", "copy record", "copy ID", "copy fix"},
	}
	letter := map[string]string{} // letters by dangerous command
	for l, verbs := range only {
		for _, v := range verbs {
			letter[v] = l
		}
	}
	delete(letter, "")
	all := places()
	all["enrollment"] = func(r *rig) { atTokens(r); r.Press("e"); r.Sees("Change: u user") }
	for name, to := range all {
		w := newWorld(t)
		w.ours()
		r := w.open(100, 30)
		to(r)
		top := tui.Top(r.Model())
		seen := map[string]string{}
		for _, a := range append(top.Actions(), tui.Everywhere(r.Model())...) {
			for _, k := range a.Key.Keys() {
				if verbs, ok := only[k]; ok && !slices.Contains(verbs, a.Verb) {
					t.Errorf("%s: %s is %q (%s)", name, k, a.Key.Help().Desc, a.Verb)
				}
				if says, ok := words[k]; ok && !slices.Contains(says, a.Key.Help().Desc) {
					t.Errorf("%s: %s is %q", name, k, a.Key.Help().Desc)
				}
				if want, ok := letter[a.Verb]; ok && want != k {
					t.Errorf("%s: %q is on %s, not on %s", name, a.Verb, k, want)
				}
				if other, twice := seen[k]; twice && other != a.Key.Help().Desc && !slices.Contains([]string{"L", "U"}, k) {
					t.Errorf("%s: %s is %q and %q", name, k, other, a.Key.Help().Desc)
				}
				seen[k] = a.Key.Help().Desc
			}
		}
		for _, size := range [][2]int{{40, 10}, {60, 15}, {80, 24}, {200, 50}} {
			r.Send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			lines := strings.Split(r.View(), "\n")
			footer := lines[len(lines)-1]
			if strings.Contains(footer, "…") || !strings.Contains(footer, "? help") {
				t.Errorf("%s at %v: %q", name, size, footer)
			}
			for _, a := range top.Actions() {
				h := a.Key.Help()
				if a.Reason != "" && strings.Contains(footer, " "+h.Key+" "+h.Desc+" ") {
					t.Errorf("%s at %v: %q has %s, and %s", name, size, footer, h.Desc, a.Reason)
				}
			}
		}
		r.Close()
	}
}
