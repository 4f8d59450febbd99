package tui_test

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui"
)

// TestSections walks between the screens of the top level.
func TestSections(t *testing.T) {
	for _, c := range []struct {
		name string
		keys []string
		sees []string
		not  string
	}{
		{"each has a number", []string{"6"}, []string{"look again"}, "SLOT"},
		{"an unknown number does nothing", []string{"9"}, []string{"SLOT"}, ""},
		{"esc goes to the tokens", []string{"4", "esc"}, []string{"SLOT"}, ""},
		{"a number is text in a filter", []string{"/", `"6"`}, []string{"/ 6"}, "WHAT"},
		{"a colon is text in a filter", []string{"/", `":"`}, []string{"/ :"}, "what shall be done?"},
		{"ctrl-p is not", []string{"/", `"x"`, "ctrl+p"}, []string{"what shall be done?"}, ""},
		{"the palette finds screens", []string{":", `"go help"`, "enter"}, []string{"STILL GOOD"}, "SLOT"},
		{"the palette finds commands of this screen", []string{":", `"token release"`},
			[]string{"have scdaemon let go (kubehsm token release)"}, ""},
		{"the palette finds commands of other screens", []string{":", `"consent"`},
			[]string{"go to Contexts (kubehsm consent show)"}, ""},
		{"the palette finds consent", []string{"2", ":", `"consent"`},
			[]string{"what needs my yes (kubehsm consent show)"}, ""},
		{"the palette presses keys", []string{":", `"command"`, "enter"}, []string{"kubehsm token list"}, ""},
		{"it says why not", []string{":", `"fingerprint"`}, []string{"copy fingerprint (there is no key)"}, ""},
		{"what is grey is not done", []string{":", `"fingerprint"`, "enter"}, []string{"Commands"}, "copied"},
		{"nothing matches", []string{":", `"zebra"`, "enter"}, []string{"Nothing matches."}, ""},
		{"esc closes it", []string{":", "esc"}, []string{"SLOT"}, "Commands"},
		{"help names it", []string{"?", "end"}, []string{"leave at once"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newWorld(t).open(100, 40)
			atTokens(r)
			r.Press(c.keys...)
			r.Sees(c.sees...)
			if c.not != "" && strings.Contains(r.View(), c.not) {
				t.Errorf("the screen must not hold %q:\n%s", c.not, r.View())
			}
		})
	}
}

// TestNumbersAreTextInForms: a digit in a name is no way out of the wizard.
func TestNumbersAreTextInForms(t *testing.T) {
	r := newWorld(t).openWizard(100, 30)
	toSubject(r)
	r.Press(`"jane2:q"`)
	r.Sees("jane2:q", "Who is it for")
}

// TestWheel moves as the arrows do, where the mouse was asked for.
func TestWheel(t *testing.T) {
	w := newWorld(t)
	r := &rig{Rig: w.Start(100, 30, tui.Options{Environ: []string{"KUBEHSM_MOUSE=1"}}), world: w}
	atTokens(r)
	if r.Frame().MouseMode == tea.MouseModeNone {
		t.Error("the mouse is off")
	}
	r.Send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	r.Send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	r.Sees("Slot 9a on")
	r.Send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	r.Sees("▌ YubiKey")
	if w.open(80, 24).Frame().MouseMode != tea.MouseModeNone {
		t.Error("the mouse is on unasked: the terminal's own selection would be lost")
	}
}
