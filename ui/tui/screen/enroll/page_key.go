package enroll

import (
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

type keyPage struct {
	m     *wizard
	list  picker
	slots []hsm.Slot
	token string // the token that the list is of
}

func newKey(m *wizard) *keyPage { return &keyPage{m: m} }

func (p *keyPage) enter(now time.Time) tea.Cmd {
	if u := p.m.opts.Token.String(); u != p.token {
		p.token, p.list = u, picker{}
	}
	p.fill(now)
	return nil
}
func (p *keyPage) leave()          {}
func (p *keyPage) typing() bool    { return p.list.filter.Typing() }
func (p *keyPage) animating() bool { return false }

func (p *keyPage) hasSlots() bool { return p.m.token != nil && p.m.token.Info.Kind().HasSlots() }

func (p *keyPage) fill(now time.Time) {
	if p.m.token == nil {
		return
	}
	p.slots = p.m.token.Slots
	if p.hasSlots() {
		p.slots = withEmptySlots(p.m.token.Info.URI(), p.slots)
	}
	var items []item
	if !p.hasSlots() {
		items = append(items, item{id: "new", index: itemNew, name: "Generate a new key",
			about:  "made on the token, it never leaves it",
			detail: []string{"The safest choice: nobody else can have a copy of it."}})
	}
	prefer := "new"
	for i, s := range p.slots {
		it := slotItem(s, now)
		it.index = i
		if s.Key == nil && s.Certificate == nil && prefer == "new" && p.hasSlots() &&
			(s.ID == s.URI.TokenOnly().NewSlot() || slices.Contains(s.URI.Kind().Spare, s.ID)) {
			prefer = it.id // the other slots have uses of their own
		}
		if s.Key == nil && !p.hasSlots() {
			continue // a certificate on its own is nothing to enroll
		}
		items = append(items, it)
	}
	fit, unfit := enroll.Adoptables(p.slots, nil)
	for _, a := range unfit {
		i := slices.IndexFunc(items, func(it item) bool { return it.id == a.Slot.ID })
		if i >= 0 && a.Slot.Key != nil {
			items[i].detail = append(items[i].detail, "Its certificate cannot sign in: "+text.Clean(a.Problem)+".")
		}
	}
	if p.m.several && len(fit) > 0 {
		prefer = fit[0].Slot.ID
	}
	if k := p.m.opts.Key; k.Scheme != "" {
		for i, s := range p.slots {
			if k.MatchSlot(s) {
				prefer = slotItem(p.slots[i], now).id
			}
		}
	} else if p.hasSlots() && p.m.opts.Generate.Slot != "" {
		prefer = p.m.opts.Generate.Slot
	}
	p.list.set(items, prefer)
}

// withEmptySlots adds the empty slots of a token whose driver lists only those in use.
func withEmptySlots(u hsm.URI, slots []hsm.Slot) []hsm.Slot {
	have := map[string]hsm.Slot{}
	for _, s := range slots {
		have[s.ID] = s
	}
	var out []hsm.Slot
	for _, id := range slices.Concat(u.Kind().Slots, u.Kind().Spare) {
		s, ok := have[id]
		if !ok {
			s = hsm.Slot{URI: u, ID: id}
			s.URI.Slot = id
		}
		delete(have, id)
		out = append(out, s)
	}
	for _, s := range slots {
		if _, more := have[s.ID]; more {
			out = append(out, s)
		}
	}
	return out
}

func slotItem(s hsm.Slot, now time.Time) item {
	it := item{id: s.ID, reason: text.Clean(s.Problem)}
	inSlot := s.URI.Kind().HasSlots()
	switch {
	case s.Key == nil && s.Certificate != nil:
		it.name, it.about = "Slot "+present.ID(s), "holds a certificate of a key that is not here"
		it.reason = "it is occupied; o overwrites it"
	case s.Key == nil:
		it.name, it.about = "Slot "+present.ID(s), "empty: generate a new key here"
		it.detail = []string{"Meant for " + present.Purpose(s.ID) + "."}
		if slices.Contains(s.URI.Kind().Spare, s.ID) {
			it.detail = []string{"For a further key, such as that of another cluster."}
		}
	default:
		it.name = "Reuse " + present.Slot(s)
		if inSlot {
			it.name = "Slot " + present.ID(s)
		}
		it.about = text.Clean(string(s.Key.Algorithm))
		if inSlot {
			it.about = "reuse its " + it.about + " key"
		}
		if c := present.Certificate(s.Certificate); c != "" {
			it.about += ", certificate for " + c
		}
		it.right, _, it.level = present.Expiry(s.Certificate, now)
		it.detail = []string{"PIN " + present.PINPolicy(s.Key.PIN) + "."}
		if !inSlot {
			it.detail = append(it.detail, "id "+text.Clean(s.ID))
		}
		if s.Key.Extractable {
			it.detail = append(it.detail, "Note: the token says that this private key can leave it.")
		}
	}
	return it
}

func (p *keyPage) update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case store.TokensMsg:
		p.fill(now)
		return nil
	case overwriteMsg:
		p.m.opts.Key, p.m.opts.Adopt = hsm.URI{}, false
		p.m.opts.Generate.Slot, p.m.opts.Generate.Overwrite = msg.slot.ID, true
		return p.m.to(stagePolicy, now)
	}
	if p.list.update(msg, p.m.Keys) {
		return nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
	case key.Matches(k, p.m.Keys.Back):
		return p.m.back(now)
	case key.Matches(k, p.m.Keys.Enter):
		return p.choose(now)
	case key.Matches(k, keyOverwrite()) && p.overwritable() == "":
		return p.askOverwrite()
	case key.Matches(k, keyCertificate()) && p.unfit() == "":
		it, _ := p.list.selected()
		o := &p.m.opts
		o.Adopt, o.Key, o.User, o.Groups = true, p.slots[it.index].URI, "", nil // the certificate says who signs in
		return p.m.review(now)
	}
	return nil
}

func keyCertificate() key.Binding { return keys.Letter("c", "use its certificate") }

// unfit is the reason why the certificate of the selected key cannot sign in, "" if it can.
func (p *keyPage) unfit() string {
	it, ok := p.list.selected()
	if !ok || it.index < 0 {
		return "no key is selected"
	}
	fit, unfit := enroll.Adoptables(p.slots[it.index:it.index+1], nil)
	switch {
	case len(fit) > 0:
		return ""
	case len(unfit) > 0:
		return text.Clean(unfit[0].Unfit())
	}
	return "it has no certificate to sign in with"
}

func keyOverwrite() key.Binding { return keys.Letter("o", "overwrite") }

type overwriteMsg struct{ slot hsm.Slot }

// overwritable is the reason why a new key cannot replace the one in the slot, "" if it can.
func (p *keyPage) overwritable() string {
	it, ok := p.list.selected()
	switch {
	case !p.hasSlots():
		return "only the slots of PIV cards are overwritten"
	case !ok || it.index < 0:
		return "no slot is selected"
	case p.slots[it.index].Key == nil && p.slots[it.index].Certificate == nil:
		return "the slot is empty"
	case p.slots[it.index].Problem != "":
		return text.Clean(p.slots[it.index].Problem)
	}
	return ""
}

// askOverwrite has the person type the serial before a key is destroyed.
func (p *keyPage) askOverwrite() tea.Cmd {
	it, _ := p.list.selected()
	s, info := p.slots[it.index], p.m.token.Info
	lost := token.Loss{Token: info}
	what := "What is in slot " + s.ID
	if c := present.Certificate(s.Certificate); c != "" {
		what += " (certificate for " + c + ")"
	}
	d := dialog.NewConfirm(hsm.ConfirmPrompt{Question: "Overwrite slot " + s.ID + "?", Type: lost.Serial(),
		Short: lost.Short, Detail: what + " is destroyed when the enrollment makes its key. This cannot be undone, " +
			"and whatever signs in with it stops working."},
		p.m.Keys, screen.Send(overwriteMsg{s}))
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

func (p *keyPage) choose(now time.Time) tea.Cmd {
	it, ok := p.list.selected()
	switch {
	case !ok || it.reason != "":
		return nil
	case it.index == itemNew:
		p.m.opts.Key, p.m.opts.Adopt = hsm.URI{}, false
		return p.m.to(stagePolicy, now)
	}
	s := p.slots[it.index]
	p.m.chooseSlot(s)
	if s.Key == nil {
		return p.m.to(stagePolicy, now)
	}
	return p.m.review(now)
}

func (p *keyPage) actions() []screen.Action {
	enter := "reuse"
	if it, ok := p.list.selected(); ok && (it.index == itemNew || p.slots[it.index].Key == nil) {
		enter = "new key"
	}
	a := p.list.actions(p.m.Keys, enter, "back")
	if p.typing() {
		return a
	}
	a = slices.Insert(a, 1, screen.Action{Key: keyCertificate(), Reason: p.unfit()})
	if !p.hasSlots() {
		return a
	}
	return append(a, screen.Action{Key: keyOverwrite(), Reason: p.overwritable()})
}

func (p *keyPage) view(f screen.Frame) string {
	t := f.Theme
	lines := heading(t, "A new key, or an existing one?", f.Height)
	if p.m.several {
		lines = append(lines, widget.Paragraph(t.Text, "The token has several certificates to sign in with: choose one, and "+
			"press c.", f.Width)...)
		lines = append(lines, "")
	}
	if p.m.token != nil && p.m.token.Err != nil {
		msg := "The keys on the token could not be read: " + ui.Message(p.m.token.Err)
		lines = append(append(lines, widget.Paragraph(t.Warn, msg, f.Width)...), "")
	}
	return strings.Join(append(lines, p.list.view(f.With(f.Width, f.Height-len(lines)))), "\n")
}
