package token

import (
	"context"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// Acts implements [screen.Actor]: what can be done with the token and the slot
// under the cursor.
func (m *Model) Acts() screen.Acts {
	s, ok := m.slot()
	guard, on := secrets{m.Services, m.info}, contents{m.Services, m.info}
	reason := func(conditions ...string) string {
		return screen.Because(append([]string{screen.When(m.gone, "the token is not there")}, conditions...)...)
	}
	slot := screen.When(!ok, "no slot is selected")
	noKey := screen.When(!ok || s.Key == nil, "there is no key")
	noHalf := screen.When(!ok || s.Key == nil && !s.Half.OfKey(), "there is no key")
	noCert := screen.When(!ok || s.Certificate == nil, "there is no certificate")
	can := m.info.Can
	lacks := func(able bool) string {
		if !able && m.info.Kind().HasSlots() {
			return "this card does not have it"
		}
		return screen.When(!able, "only PIV cards have this")
	}
	keeps := screen.When(!can.Delete && m.info.Kind().HasSlots(), "this card keeps its keys until they are overwritten")
	unset := screen.When(!m.info.Initialized, "the token is not initialized yet")
	problem := screen.When(ok && s.Problem != "" && (m.info.Kind().HasSlots() && s.Key == nil), text.Clean(s.Problem))
	out := screen.Acts{
		screen.On(screen.Action{Key: keys.As(m.Keys.Enter, "certificate"), Reason: reason(slot, noCert)}, "certificate show",
			func() tea.Cmd { return on.show(s) }),
		screen.On(screen.Action{Key: m.Keys.Enroll, Reason: reason(present.Unusable(m.info), text.Clean(s.Problem))},
			"enroll", func() tea.Cmd { return m.enroll(s, ok) }),
		screen.On(screen.Action{Key: keys.Letter("t", "attestation"), Reason: reason(lacks(can.Attest), noKey)}, "key attest",
			func() tea.Cmd { return on.attest(s) }),
		screen.On(screen.Action{Key: keys.Letter("p", "change PIN"), Reason: reason(unset), Writes: true}, "token pin change",
			guard.pin),
		screen.On(screen.Action{Key: keys.Letter("u", "unblock PIN"), Reason: reason(unset), Writes: true, Quiet: true},
			"token pin unblock", guard.unblock),
		screen.On(screen.Action{Key: keys.Letter("P", guard.secondPIN()), Reason: reason(unset), Writes: true, Quiet: true},
			"token puk change", guard.second),
		screen.On(screen.Action{Key: keys.Letter("M", "management key"), Reason: reason(lacks(can.ManagementKey)),
			Writes: true, Quiet: true}, "token management-key set", guard.managementKey),
		screen.On(screen.Action{Key: keys.Letter("n", "new key"), Reason: reason(present.Unusable(m.info), problem),
			Writes: true}, "key generate", func() tea.Cmd { return on.generate(s) }),
		screen.On(screen.Action{Key: keys.Letter("s", "file a request"), Reason: reason(noKey), Writes: true, Quiet: true},
			"csr create", func() tea.Cmd { return on.request(s) }),
		screen.On(screen.Action{Key: keys.As(m.Keys.Delete, "delete key"), Reason: reason(keeps, noHalf), Writes: true,
			Quiet: true}, "key delete", func() tea.Cmd { return on.deleteKey(s) }),
		screen.On(screen.Action{Key: keys.As(m.Keys.Copy, "copy URI"), Quiet: true}, "",
			func() tea.Cmd { return screen.Send(screen.CopyMsg{What: "URI", Text: m.place(s, ok).String()}) }),
		screen.On(screen.Action{Key: m.Keys.CopyPrint, Reason: reason(noKey), Quiet: true}, "",
			func() tea.Cmd { return copyPrint(s) }),
		screen.On(screen.Action{Key: m.Keys.Command, Quiet: true}, "",
			func() tea.Cmd { return screen.Send(m.commands(s, ok)) }),
	}
	if !can.Initialize {
		return append(out, screen.On(screen.Action{Key: m.Keys.Reset, Reason: reason(lacks(can.Reset)),
			Writes: true, Quiet: true}, "token reset", on.reset))
	}
	if !m.info.Initialized {
		return slices.Insert(
			out,
			0,
			screen.On(screen.Action{Key: keys.Letter("I", "initialize"), Reason: reason(), Writes: true},
				"token init", on.initialize),
		)
	}
	return append(
		out,
		screen.On(screen.Action{Key: keys.As(m.Keys.Reset, "initialize again"), Reason: reason(), Writes: true,
			Quiet: true}, "token init", on.initialize),
	)
}

func (m *Model) place(s hsm.Slot, ok bool) hsm.URI {
	if ok {
		return s.URI
	}
	return m.uri()
}

func copyPrint(s hsm.Slot) tea.Cmd {
	fp, err := hsm.Fingerprint(s.Key.Public)
	if err != nil {
		return screen.Send(screen.ToastMsg{Text: err.Error(), Warn: true})
	}
	return screen.Send(screen.CopyMsg{What: "fingerprint", Text: fp})
}

func (m *Model) commands(s hsm.Slot, ok bool) screen.CommandMsg {
	lines := []string{by("token info", m.uri()), by("token pin change", m.uri())}
	if ok && s.Key != nil {
		lines = append(lines, by("key show", s.URI))
		if m.info.Can.Attest {
			lines = append(lines, by("key attest", s.URI))
		}
	}
	if ok && s.Certificate != nil {
		lines = append(lines, by("certificate show", s.URI))
	}
	return screen.CommandMsg{Title: present.SameTitle, Lines: lines}
}

func (m *Model) enroll(s hsm.Slot, ok bool) tea.Cmd {
	v := hsm.View{Info: m.info, Slots: m.details.Slots}
	if !ok {
		return screen.Send(screen.OpenMsg{Screen: m.Enroll(&v, nil)})
	}
	return screen.Send(screen.OpenMsg{Screen: m.Enroll(&v, &s)})
}

func (c contents) reset() tea.Cmd {
	u := c.info.URI()
	return screen.Operate(screen.Operation{Title: "Reset the token", Command: by("token reset", u), Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			d, err := c.Tokens.Reset(ctx, u, func(l token.Loss) (hsm.Prompter, error) { return losing(p, l), nil })
			r := screen.Report{
				Said:  "the PIV application is reset: change PIN, PUK and management key before you use it",
				Title: "The card has another identity", Lines: present.Renamed(d.Renamed),
			}
			if d.Renamed == nil {
				r.Title, r.Lines = "Enroll anew", present.Anew(d.Commands)
			}
			return r, err
		}})
}

// losing adds what is lost to the driver's own question.
func losing(p hsm.Prompter, l token.Loss) hsm.Prompter {
	next := ask.From(p)
	return ask.Func(func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.Confirm != nil {
			c := *q.Confirm
			c.Detail = strings.Join(append(present.Loss(l), c.Detail), "\n")
			q.Confirm = &c
		}
		return next(ctx, q)
	})
}

func (c contents) initialize() tea.Cmd {
	u := c.info.URI()
	o := hsm.InitializeOptions{Label: c.info.Label, Erase: c.info.Initialized}
	intro := "It gets an SO PIN and a PIN."
	if o.Erase {
		intro = "Everything on it is erased; its SO PIN stays."
	}
	label := verb.Option{Flag: "label", Into: &o.Label, Label: "Label", Empty: "what you will know it by",
		Note: "1 to 32 bytes."}
	return openForm(c.Keys, "Initialize the token", intro, []verb.Option{label}, func(f *widget.Form) tea.Cmd {
		if len(o.Label) < 1 || len(o.Label) > 32 {
			f.Field("label").Problem = "1 to 32 bytes"
			return nil
		}
		line := by("token init", u, label, verb.Option{Flag: "erase", Into: &o.Erase})
		return screen.Change("Initialize the token", line, "the token is initialized",
			func(ctx context.Context, p hsm.Prompter) error {
				if o.Erase {
					if _, err := c.confirmLoss(ctx, u, p, func(l token.Loss) (question,
						detail string) {
						return present.Erase(l.Token)
					}); err != nil {
						return err
					}
				}
				_, err := c.Tokens.Init(ctx, u, o, p)
				return err
			})
	})
}
