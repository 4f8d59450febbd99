package ask

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/process"
)

func TestWaitWords(t *testing.T) {
	who := process.ID{PID: 1 << 30}
	for want, w := range map[string]Wait{
		`waiting: the PIV PIN of "lab" is being asked for (kubectl get pods, process 1073741824)`:                     {For: ForPIN, Kind: "PIV PIN", Token: "lab", Client: who, Asker: who},
		`waiting: the PIN of "lab" is being asked for in the open kubehsm (for kubectl get pods, process 1073741824)`: {For: ForPIN, Kind: "PIN", Token: "lab", Client: who, Asker: process.ID{PID: 1<<30 + 1, Start: 1}},
		`waiting: the PIN of "lab" is being tried (kubectl get pods, process 1073741824)`:                             {For: ForTrial, Kind: "PIN", Token: "lab", Client: who},
		`waiting: a touch of "lab" is awaited (kubectl get pods, process 1073741824)`:                                 {For: ForTouch, Token: "lab", Client: who},
		`waiting: a question about "<esc>[2J" is open (kubectl get pods)`:                                             {For: ForAnswer, Token: "\x1b[2J"},
	} {
		clean := func(s string) string { return strings.ReplaceAll(s, "\x1b", "<esc>") }
		if got := w.Words("kubectl get pods", clean); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (Wait{For: ForTouch, Token: "lab"}).Words("",
		strings.ToLower); got != `waiting: a touch of "lab" is awaited` {
		t.Errorf("%q", got)
	}
}
