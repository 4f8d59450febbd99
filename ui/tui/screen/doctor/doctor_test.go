package doctor_test

import (
	"errors"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	flowdoctor "github.com/kubehsm/kubehsm/ui/flow/doctor"
	"github.com/kubehsm/kubehsm/ui/tui/screen/doctor"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
)

// open shows the screen where a token is healthy and a reader is not.
func open(t *testing.T) *screentest.Rig {
	t.Helper()
	w := screentest.New(t)
	w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})
	w.Cards.SetProblems(hsm.Problem{Source: "a reader",
		Err: hint.With(errors.New("the reader fell silent"), "plug it in again")})
	r := w.Open("6")
	r.Walk("~the reader fell silent", "~passed; tab shows them", "~look again")
	return r
}

// TestGolden: the cursor is on the worst finding, with what mends it.
func TestGolden(t *testing.T) {
	w := screentest.New(t)
	r := w.Open("6")
	var found tea.Msg
	r.Until("looked", func() bool {
		found = doctor.Found(r.Given, []flowdoctor.Check{
			{ID: "pcscd", Group: flowdoctor.GroupTokens, Title: "PC/SC service", State: flowdoctor.OK, Found: "pcscd 2.3.3 answers"},
			{ID: "kubectl-path", Group: flowdoctor.GroupKubectl, Title: "PATH of GUI programs", State: flowdoctor.Warning,
				Found: "kubectl is not on the bare PATH", Why: "Programs started from a desktop do not read your shell's files.",
				Fix: "ln -s ~/bin/kubectl /usr/local/bin/kubectl"},
			{ID: "clock", Group: flowdoctor.GroupClusters, Title: "Clock", State: flowdoctor.Failed, Found: "7 min behind prod.example.com",
				Why: "A certificate is refused before its time has come.", Fix: "timedatectl set-ntp true"},
		})
		return found != nil
	})
	r.Send(found)
	r.Sees("1 problem prevents signing in", "timedatectl set-ntp true")
	t.Run("doctor", r.Golden)
}

// TestDoctor names what is well and what is not, with what mends it.
func TestDoctor(t *testing.T) {
	r := open(t)
	r.Walk("/", `"silent"`, "enter", "enter", "~╭─ Reader a reader", "~To mend it: plug it in again", "c")
	r.Until("copied", func() bool { return r.Copied() == "plug it in again" })
	r.Walk("esc", "esc", "tab", "~Token blue", "/", `"blue"`, "enter", "c", "~copy fix: there is nothing to do")
}

// TestLooksAgain: what was mended is well.
func TestLooksAgain(t *testing.T) {
	r := open(t)
	r.World.Cards.SetProblems()
	r.Press("r")
	r.Loses("the reader fell silent")
	r.Walk("tab", "~Token blue")
}
