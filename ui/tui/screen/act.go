package screen

import (
	"iter"
	"slices"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/task"
)

// Tools are what every screen works with, beside the use cases that it shows; the
// root passes them.
type Tools struct {
	Runner *task.Runner
	Keys   keys.Map
}

// Act is an action and what its key does.
type Act struct {
	Action
	Do func() tea.Cmd
}

// On makes an act of what the command verb does, too.
func On(a Action, verb string, do func() tea.Cmd) Act {
	a.Verb = verb
	return Act{Action: a, Do: do}
}

// Acts are all that keys do on a screen, the most useful first.
type Acts []Act

// Actions lists them.
func (a Acts) Actions() []Action {
	out := make([]Action, len(a))
	for i, act := range a {
		out[i] = act.Action
	}
	return out
}

// Press does what k does, if it can be done now. It reports whether k is anybody's key.
func (a Acts) Press(k tea.KeyPressMsg) (cmd tea.Cmd, ok bool) {
	for _, act := range a {
		if !key.Matches(k, act.Key) {
			continue
		}
		if ok = true; act.Reason == "" {
			return act.Do(), true
		}
	}
	return nil, ok
}

// Press does what k does on a screen: goes back, reads again, or is one of acts.
// It reports whether k is anybody's key.
func (s Tools) Press(k tea.KeyPressMsg, acts Acts, again func() tea.Cmd) (cmd tea.Cmd, ok bool) {
	switch {
	case key.Matches(k, s.Keys.Back):
		return Send(BackMsg{}), true
	case key.Matches(k, s.Keys.Refresh):
		return again(), true
	}
	return acts.Press(k)
}

// Actor is a screen that tells what its keys do.
type Actor interface{ Acts() Acts }

// Find returns the act that is called so, by its words in help.
func (a Acts) Find(name string) (Act, bool) {
	i := slices.IndexFunc(a, func(act Act) bool { return act.Key.Help().Desc == name })
	if i < 0 {
		return Act{}, false
	}
	return a[i], true
}

// Found is an object that a screen knows, with what can be done with it.
type Found struct {
	// Name tells it from the others of the screen; Words are what else it is found by. Both
	// are raw.
	Name, Words string
	Acts        Acts
	// Select puts the screen's cursor on it; may be nil.
	Select func()
}

// Finder is a screen whose objects are found by name from everywhere.
type Finder interface {
	// Finds goes through the objects that the screen knows now. It waits for nothing.
	Finds(now time.Time) iter.Seq[Found]
}

// Opener is a screen that opens others.
type Opener interface {
	// Below are the acts of the screens that it opens, to find it by.
	Below() Acts
}

// Filtering is what keys do while a filter is typed.
func Filtering(k keys.Map) []Action {
	return []Action{{Key: keys.As(k.Enter, "keep")}, {Key: keys.As(k.Back, "clear")}}
}

// When is why if no holds, else "": the reason of an action.
func When(no bool, why string) string {
	if no {
		return why
	}
	return ""
}

// Because is the first of the reasons that is not empty.
func Because(reasons ...string) string {
	for _, r := range reasons {
		if r != "" {
			return r
		}
	}
	return ""
}
