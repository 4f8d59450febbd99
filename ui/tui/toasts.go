package tui

import (
	"time"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

type toasts []toast

type toast struct {
	screen.ToastMsg
	until time.Time
}

const (
	toastFor   = 4 * time.Second // time that a toast stays
	mostToasts = 3
)

func (t *toasts) add(m screen.ToastMsg, now time.Time) {
	all := append(*t, toast{ToastMsg: m, until: now.Add(toastFor)})
	*t = all[max(len(all)-mostToasts, 0):]
}

func (t *toasts) enrolled(m screen.EnrolledMsg, now time.Time) {
	said := screen.ToastMsg{Text: m.Name + " is enrolled"}
	if m.Err != nil {
		said = screen.ToastMsg{Text: m.Name + " is not enrolled: " + ui.Message(m.Err), Warn: true}
	}
	t.add(said, now)
}

func (t *toasts) expire(now time.Time) {
	for len(*t) > 0 && !now.Before((*t)[0].until) {
		*t = (*t)[1:]
	}
}
