package token

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/describe"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// act is a key and what it does.
type act struct {
	screen.Action
	do func() tea.Cmd
}

// acts are what can be done with the token and the slot under the cursor.
func (m *Model) acts() []act {
	s, ok := m.slot()
	reason := func(conditions ...string) string {
		if m.gone {
			return "the token is not there"
		}
		for _, c := range conditions {
			if c != "" {
				return c
			}
		}
		return ""
	}
	when := func(no bool, why string) string {
		if no {
			return why
		}
		return ""
	}
	slot := when(!ok, "no slot is selected")
	noKey := when(!ok || s.Key == nil, "there is no key")
	noCert := when(!ok || s.Certificate == nil, "there is no certificate")
	onlyPIV := when(!m.piv(), "only PIV cards have this")
	unset := when(!m.info.Initialized, "the token is not set up yet")
	out := []act{
		{screen.Action{Key: keys.As(m.Keys.Enter, "certificate"), Reason: reason(slot, noCert)}, func() tea.Cmd { return m.show(s) }},
		{screen.Action{Key: m.Keys.Enroll, Reason: reason(describe.Unusable(m.info), text.Clean(s.Problem))}, func() tea.Cmd { return m.enrol(s, ok) }},
		{screen.Action{Key: keys.Letter("t", "attestation"), Reason: reason(onlyPIV, noKey)}, func() tea.Cmd { return m.attest(s) }},
		{screen.Action{Key: keys.Letter("p", "change PIN"), Reason: reason(unset), Writes: true}, func() tea.Cmd { return m.pin() }},
		{screen.Action{Key: keys.Letter("u", "unblock PIN"), Reason: reason(unset), Writes: true, Quiet: true}, func() tea.Cmd { return m.unblock() }},
		{screen.Action{Key: keys.Letter("P", m.secondPIN()), Reason: reason(unset), Writes: true, Quiet: true}, func() tea.Cmd { return m.second() }},
		{screen.Action{Key: keys.Letter("M", "management key"), Reason: reason(onlyPIV), Writes: true, Quiet: true}, func() tea.Cmd { return m.managementKey() }},
		{screen.Action{Key: keys.Letter("T", "number of tries"), Reason: reason(onlyPIV), Writes: true, Quiet: true}, func() tea.Cmd { return m.retries() }},
		{screen.Action{Key: keys.Letter("n", "new key"), Reason: reason(describe.Unusable(m.info), when(m.piv() && ok && s.Problem != "" && s.Key == nil, text.Clean(s.Problem))), Writes: true}, func() tea.Cmd { return m.generate(s) }},
		{screen.Action{Key: keys.Letter("m", "move key"), Reason: reason(onlyPIV, noKey), Writes: true, Quiet: true}, func() tea.Cmd { return m.move(s) }},
		{screen.Action{Key: keys.Letter("D", "delete key"), Reason: reason(noKey), Writes: true, Quiet: true}, func() tea.Cmd { return m.deleteKey(s) }},
		{screen.Action{Key: keys.Letter("i", "import certificate"), Reason: reason(noKey), Writes: true, Quiet: true}, func() tea.Cmd { return m.importCertificate(s) }},
		{screen.Action{Key: keys.Letter("o", "save certificate"), Reason: reason(noCert), Quiet: true}, func() tea.Cmd { return m.export(s) }},
		{screen.Action{Key: keys.Letter("C", "delete certificate"), Reason: reason(noCert), Writes: true, Quiet: true}, func() tea.Cmd { return m.deleteCertificate(s) }},
		{screen.Action{Key: keys.As(m.Keys.Copy, "copy URI"), Quiet: true}, func() tea.Cmd { return screen.Send(screen.CopyMsg{What: "URI", Text: m.place(s, ok).String()}) }},
		{screen.Action{Key: m.Keys.CopyPrint, Reason: reason(noKey), Quiet: true}, func() tea.Cmd { return copyPrint(s) }},
		{screen.Action{Key: m.Keys.Command, Quiet: true}, func() tea.Cmd { return screen.Send(m.commands(s, ok)) }},
	}
	if m.piv() {
		return append(out, act{screen.Action{Key: keys.Letter("X", "reset the token"), Reason: reason(), Writes: true, Quiet: true}, m.reset})
	}
	return append(out, act{screen.Action{Key: keys.Letter("I", "set up anew"), Reason: reason(), Writes: true, Quiet: true}, m.initialize})
}

// place is the URI of the slot under the cursor, or of the token.
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
		if m.piv() {
			lines = append(lines, by("key attest", s.URI))
		}
	}
	if ok && s.Certificate != nil {
		lines = append(lines, by("certificate show", s.URI))
	}
	return screen.CommandMsg{Title: "The same by command", Lines: lines}
}

func (m *Model) enrol(s hsm.Slot, ok bool) tea.Cmd {
	v := flow.TokenView{Info: m.info, Slots: m.details.Slots}
	if !ok {
		return screen.Send(screen.OpenMsg{Screen: m.Enroll(&v, nil)})
	}
	return screen.Send(screen.OpenMsg{Screen: m.Enroll(&v, &s)})
}

// operate asks the root to run something; a bare error is enough of a report.
func operate(title, command, said string, run func(ctx context.Context, p hsm.Prompter) error) tea.Cmd {
	return screen.Send(screen.OperationMsg{Operation: screen.Operation{Title: title, Command: command, Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			return screen.Report{Said: said}, run(ctx, p)
		}}})
}

func (m *Model) pin() tea.Cmd {
	u := m.uri()
	return operate("Change the PIN", by("token pin change", u), "the PIN is changed", func(ctx context.Context, p hsm.Prompter) error {
		_, err := m.Backend.ChangePIN(ctx, u, hsm.UserPIN, p)
		return err
	})
}

func (m *Model) unblock() tea.Cmd {
	u := m.uri()
	return operate("Set a new PIN", by("token pin unblock", u), "the new PIN is set", func(ctx context.Context, p hsm.Prompter) error {
		_, err := m.Backend.UnblockPIN(ctx, u, p)
		return err
	})
}

func (m *Model) secondPIN() string {
	if m.piv() {
		return "change PUK"
	}
	return "change SO PIN"
}

// second changes the secret that unblocks the PIN.
func (m *Model) second() tea.Cmd {
	u, kind, command := m.uri(), hsm.SOPIN, by("token pin change --so", m.uri())
	if m.piv() {
		kind, command = hsm.PUK, by("token puk change", u)
	}
	return operate("Change the "+string(kind), command, "the "+string(kind)+" is changed", func(ctx context.Context, p hsm.Prompter) error {
		_, err := m.Backend.ChangePIN(ctx, u, kind, p)
		return err
	})
}

func (m *Model) retries() tea.Cmd {
	u := m.uri()
	const most = 15 // of a PIV card
	fields := []*widget.Field{
		{ID: "pin", Label: "PIN", Input: widget.NewInput("3", ""), Note: "Wrong PINs that lock it, 1 to 15."},
		{ID: "puk", Label: "PUK", Input: widget.NewInput("3", ""), Note: "Wrong PUKs that lock that, 1 to 15."},
	}
	return openForm(m.Keys, "How many tries?", "The card sets PIN and PUK to the factory's values with that: your PIN is put back, a new PUK is asked for.", fields, func(f *widget.Form) tea.Cmd {
		n := map[string]int{}
		for _, x := range f.Fields {
			v, err := strconv.Atoi(strings.TrimSpace(x.Input.Value()))
			if n[x.ID] = v; err != nil || v < 1 || v > most {
				x.Problem = "a number from 1 to 15"
			}
		}
		if f.FirstProblem() {
			return nil
		}
		command := by(fmt.Sprintf("token retries --pin %d --puk %d", n["pin"], n["puk"]), u)
		return operate("Set the number of tries", command, "the number of tries is set", func(ctx context.Context, p hsm.Prompter) error {
			_, err := m.Backend.SetRetries(ctx, u, n["pin"], n["puk"], p)
			return err
		})
	})
}

func openForm(k keys.Map, title, intro string, fields []*widget.Field, submit func(*widget.Form) tea.Cmd) tea.Cmd {
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewForm(k, title, intro, fields, submit)})
}

func (m *Model) managementKey() tea.Cmd {
	u := m.uri()
	ciphers := []hsm.ManagementAlgorithm{"", hsm.TDES, hsm.AES128, hsm.AES192, hsm.AES256}
	fields := []*widget.Field{
		{ID: "keep", Label: "Keep it", Options: []widget.Option{
			{Label: "on the card", Clause: "the PIN gives it out: nothing to keep, nothing to lose"},
			{Label: "yourself", Clause: "it is shown once; without it only a reset helps"}}},
		{ID: "cipher", Label: "Cipher", Options: []widget.Option{{Label: "as it is"}, {Label: "3des", Clause: "before firmware 5.4"}, {Label: "aes-128"}, {Label: "aes-192", Clause: "the factory's from 5.7 on"}, {Label: "aes-256"}}},
		{ID: "touch", Label: "Touch", Options: []widget.Option{{Label: "never"}, {Label: "always", Clause: "a touch whenever a key or certificate is written"}}},
	}
	return openForm(m.Keys, "A new management key", "A random key replaces the one that guards writing to the card.", fields, func(f *widget.Form) tea.Cmd {
		o := hsm.ManagementKeyOptions{Protect: f.Field("keep").Index == 0, Algorithm: ciphers[f.Field("cipher").Index], Touch: f.Field("touch").Index == 1}
		command := "token management-key set"
		if o.Protect {
			command += " --protect"
		}
		if o.Algorithm != "" {
			command += " --algorithm " + string(o.Algorithm)
		}
		if o.Touch {
			command += " --touch"
		}
		return operate("Replace the management key", by(command, u), "the management key is replaced", func(ctx context.Context, p hsm.Prompter) error {
			return m.setManagementKey(ctx, u, o, p)
		})
	})
}

// setManagementKey replaces the key and shows the new one where nobody else
// keeps it, or where it may be in force although writing failed.
func (m *Model) setManagementKey(ctx context.Context, u hsm.URI, o hsm.ManagementKeyOptions, p hsm.Prompter) error {
	if !o.Protect {
		yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "Go on?", DefaultYes: true,
			Detail: "A new management key is made and shown here once. Have something to keep it in."})
		if err == nil && !yes {
			err = hsm.ErrCancelled
		}
		if err != nil {
			return err
		}
	}
	secret, _, err := m.Backend.SetManagementKey(ctx, u, o, p)
	defer secret.Zero()
	if secret.Len() == 0 || o.Protect && err == nil {
		return err
	}
	what := "not shown again"
	if err != nil {
		what = "may be in force although the change failed"
	}
	detail := "The new management key, which is " + what + ":\n\n    " + hex.EncodeToString(secret.Bytes())
	for kept := false; !kept; { // whatever is answered but a no, it was seen
		yes, cerr := p.Confirm(context.WithoutCancel(ctx), hsm.ConfirmPrompt{Question: "Have you kept it?", Detail: detail})
		kept = yes || cerr != nil
	}
	return err
}

// generate makes a key: in the slot under the cursor on a card, anywhere on
// other tokens.
func (m *Model) generate(s hsm.Slot) tea.Cmd {
	u := m.uri()
	fields := []*widget.Field{{ID: "algorithm", Label: "Algorithm"}}
	for _, a := range hsm.Algorithms() {
		fields[0].Options = append(fields[0].Options, widget.Option{Label: string(a), Clause: describe.Algorithm(a), Reason: describe.Lacks(m.info, a)})
	}
	pins := []hsm.PINPolicy{hsm.PINDefault, hsm.PINOnce, hsm.PINAlways, hsm.PINNever}
	touches := []hsm.TouchPolicy{hsm.TouchDefault, hsm.TouchNever, hsm.TouchCached, hsm.TouchAlways}
	title := "A new key on " + describe.Token(m.info)
	if m.piv() {
		title = "A new key in slot " + s.ID
		pin, touch := &widget.Field{ID: "pin", Label: "PIN"}, &widget.Field{ID: "touch", Label: "Touch"}
		for _, v := range pins {
			pin.Options = append(pin.Options, widget.Option{Label: v.String(), Clause: describe.PINPolicy(v)})
		}
		for _, v := range touches {
			touch.Options = append(touch.Options, widget.Option{Label: v.String(), Clause: describe.TouchPolicy(v)})
		}
		fields = append(fields, pin, touch)
	} else {
		fields = append(fields, &widget.Field{ID: "label", Label: "Label", Input: widget.NewInput("", "a name for the key")})
	}
	return openForm(m.Keys, title, "It is made on the token and never leaves it.", fields, func(f *widget.Form) tea.Cmd {
		o := hsm.GenerateOptions{Algorithm: hsm.Algorithms()[f.Field("algorithm").Index]}
		command := "key generate --algorithm " + string(o.Algorithm)
		if m.piv() {
			o.Slot, o.PIN, o.Touch = s.ID, pins[f.Field("pin").Index], touches[f.Field("touch").Index]
			o.Overwrite = s.Key != nil || s.Certificate != nil
			command += " --slot " + o.Slot + " --pin-policy " + o.PIN.String() + " --touch-policy " + o.Touch.String()
			if o.Overwrite {
				command += " --overwrite"
			}
		} else if o.Label = strings.TrimSpace(f.Field("label").Input.Value()); o.Label != "" {
			command += " --label " + csr.ShellQuote(o.Label)
		}
		return operate("Generate a key", by(command, u), "the key is made", func(ctx context.Context, p hsm.Prompter) error {
			if o.Overwrite {
				if _, err := m.confirmLoss(ctx, s.URI, p, "Destroy what is in slot "+s.ID+"?", "A new key takes its place. Nothing brings the old one back."); err != nil {
					return err
				}
			}
			_, err := m.Backend.GenerateKey(ctx, u, o, p)
			return err
		})
	})
}

// confirmLoss shows what is lost and has the token's serial typed.
func (m *Model) confirmLoss(ctx context.Context, u hsm.URI, p hsm.Prompter, question, detail string) (flow.Loss, error) {
	l, err := m.Backend.Loss(ctx, u)
	if err != nil {
		return l, err
	}
	yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: question, Detail: lossWords(l) + detail, Type: l.Serial()})
	if err == nil && !yes {
		err = hsm.ErrCancelled
	}
	return l, err
}

// lossWords say what is lost, a line each.
func lossWords(l flow.Loss) string {
	var b strings.Builder
	for _, s := range l.Slots {
		what := "a certificate"
		if s.Key == nil && s.Certificate == nil {
			continue
		}
		if s.Key != nil {
			what = "the key " + string(s.Key.Algorithm)
		}
		if c := describe.Certificate(s.Certificate); c != "" {
			what += ", certificate for " + c
		}
		fmt.Fprintf(&b, "%s: %s\n", describe.Slot(s), what)
	}
	if len(l.Enrollments) > 0 {
		fmt.Fprintf(&b, "Enrolments that sign in with it, and could no more: %s\n", strings.Join(l.Enrollments, ", "))
	}
	return b.String()
}

func (m *Model) move(s hsm.Slot) tea.Cmd {
	field := &widget.Field{ID: "to", Label: "To slot"}
	for _, x := range m.details.Slots {
		o := widget.Option{Label: x.ID, Clause: describe.Purpose(x.ID)}
		if x.Key != nil || x.Certificate != nil {
			o.Reason = "occupied"
		} else if x.Problem != "" {
			o.Reason = text.Clean(x.Problem)
		}
		field.Options = append(field.Options, o)
		if field.Options[field.Index].Reason != "" && o.Reason == "" {
			field.Index = len(field.Options) - 1
		}
	}
	return openForm(m.Keys, "Move the key in slot "+s.ID, "The certificate goes with it, and enrolments follow.", []*widget.Field{field}, func(f *widget.Form) tea.Cmd {
		to := field.Options[field.Index]
		if to.Reason != "" {
			field.Problem = "no slot is empty"
			return nil
		}
		return operate("Move the key", by("key move --to "+to.Label, s.URI), "the key is in slot "+to.Label+" now", func(ctx context.Context, p hsm.Prompter) error {
			_, _, err := m.Backend.MoveKey(ctx, s.URI, to.Label, p)
			return err
		})
	})
}

func (m *Model) deleteKey(s hsm.Slot) tea.Cmd {
	return operate("Delete the key", by("key delete", s.URI), "the key is destroyed", func(ctx context.Context, p hsm.Prompter) error {
		l, err := m.confirmLoss(ctx, s.URI, p, "Destroy the key?", "Key and certificate are destroyed. Nothing brings the key back.")
		if err != nil {
			return err
		}
		return m.Backend.DeleteKey(ctx, s.URI, l, p)
	})
}

func (m *Model) reset() tea.Cmd {
	u := m.uri()
	return operate("Reset the token", by("token reset", u), "the PIV application is as new: change PIN, PUK and management key before it is used", func(ctx context.Context, p hsm.Prompter) error {
		_, err := m.Backend.ResetToken(ctx, u, func(l flow.Loss) (hsm.Prompter, error) { return losing{p, l}, nil })
		return err
	})
}

// losing says what is lost above the driver's own question.
type losing struct {
	hsm.Prompter
	loss flow.Loss
}

func (l losing) Confirm(ctx context.Context, q hsm.ConfirmPrompt) (bool, error) {
	q.Detail = lossWords(l.loss) + q.Detail
	return l.Prompter.Confirm(ctx, q)
}

func (m *Model) initialize() tea.Cmd {
	u := m.uri()
	field := &widget.Field{ID: "label", Label: "Label", Input: widget.NewInput(m.info.Label, "what you will know it by"), Note: "1 to 32 bytes."}
	intro := "It gets an SO PIN and a PIN."
	if m.info.Initialized {
		intro = "Everything on it is erased; its SO PIN stays."
	}
	return openForm(m.Keys, "Set up the token", intro, []*widget.Field{field}, func(f *widget.Form) tea.Cmd {
		o := hsm.InitializeOptions{Label: strings.TrimSpace(field.Input.Value()), Erase: m.info.Initialized}
		if len(o.Label) < 1 || len(o.Label) > 32 {
			field.Problem = "1 to 32 bytes"
			return nil
		}
		command := "token init --label " + csr.ShellQuote(o.Label)
		if o.Erase {
			command += " --erase"
		}
		return operate("Set up the token", by(command, u), "the token is set up", func(ctx context.Context, p hsm.Prompter) error {
			if o.Erase {
				if _, err := m.confirmLoss(ctx, u, p, "Erase the token?", "Everything on it is erased. Nothing brings it back."); err != nil {
					return err
				}
			}
			_, err := m.Backend.InitToken(ctx, u, o, p)
			return err
		})
	})
}
