package tui

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// TestWaits: an operation says after a while why it waits, as long as it does.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		ctx := screen.WithProgress(t.Context(), func(line string) { said = append(said, line) })
		w := ask.Wait{For: ask.ForPIN, Kind: "PIN", Token: "la\x1b[31mb"}
		var told []string
		show := waits(func(m tea.Msg) { told = append(told, m.(waitMsg).words) }, func() uint64 { return 7 })
		show(ctx, w)()
		time.Sleep(2 * waitDelay)
		synctest.Wait()
		if len(said) != 0 {
			t.Errorf("said at once: %q", said)
		}
		done := show(ctx, w)
		time.Sleep(waitDelay)
		synctest.Wait()
		done()
		done()
		if want := []string{`waiting: the PIN of "la\x1b[31mb" is being asked for`, ""}; !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
		if !slices.Equal(said, told) {
			t.Errorf("the header says %q, the dialog %q", told, said)
		}
	})
}
