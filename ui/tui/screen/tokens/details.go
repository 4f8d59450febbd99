package tokens

import (
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

func (m *Model) details(t theme.Theme, w int, f screen.Frame) []string {
	r, ok := m.selected()
	if !ok {
		return nil
	}
	title, facts := present.Token(r.token.Info), present.TokenFacts(r.token.Info, nil)
	if r.slot != nil {
		title, facts = "Slot "+present.Slot(*r.slot)+" on "+title, present.SlotFacts(*r.slot, f.Now)
	}
	lines := append([]string{t.Title.Render(widget.Cut(title, w))}, widget.Facts(t, facts, w)...)
	return append(lines, "")
}
