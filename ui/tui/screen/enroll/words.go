package enroll

import (
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// algorithm is the algorithm that a new key would have.
func algorithm(o enrolling.Options) hsm.Algorithm {
	if o.Generate.Algorithm == "" {
		return hsm.ECDSAP256
	}
	return o.Generate.Algorithm
}

// keyName is the shortest name of the slot in u. It is raw.
func keyName(u hsm.URI) string {
	switch {
	case u.Slot != "":
		return "slot " + u.Slot
	case u.Object != "":
		return u.Object
	case len(u.ID) > 4:
		return fmt.Sprintf("key %x…", u.ID[:4])
	}
	return fmt.Sprintf("key %x", u.ID)
}

// lifetime writes a lifetime as people say it.
func lifetime(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "as long as the signer gives"
	case d%day == 0 && d >= 2*day:
		return present.Count(int(d/day), "day")
	case d%time.Hour == 0:
		return present.Count(int(d/time.Hour), "hour")
	}
	return d.String()
}

// commands are the commands that do the same as the wizard so far.
func (m *Model) commands() []string {
	if r := m.review(); m.at >= stageReview && r.ready {
		return r.review.Commands
	}
	o := m.opts
	args := []string{"kubehsm", "enroll"}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag, shell.Quote(value))
		}
	}
	uri := func(flag string, u hsm.URI) {
		if u.Scheme != "" {
			add(flag, u.String())
		}
	}
	add("--name", o.Name)
	if o.Key.Scheme != "" {
		uri("--key", o.Key)
	} else {
		uri("--token", o.Token)
		add("--slot", o.Generate.Slot)
		add("--label", o.Generate.Label)
		add("--algorithm", string(o.Generate.Algorithm))
		if o.Generate.PIN != hsm.PINDefault {
			add("--pin-policy", o.Generate.PIN.String())
		}
		if o.Generate.Touch != hsm.TouchDefault {
			add("--touch-policy", o.Generate.Touch.String())
		}
	}
	add("--context", o.Context)
	add("--user", o.User)
	for _, g := range o.Groups {
		add("--group", g)
	}
	if o.Expiration != 0 {
		add("--expiration", o.Expiration.String())
	}
	add("--reason", o.Reason)
	return []string{strings.Join(args, " ")}
}

// heading draws a page's question, and a blank line where there is room.
func heading(t theme.Theme, question string, h int) []string {
	lines := []string{t.Title.Render(question)}
	if h >= 10 {
		lines = append(lines, "")
	}
	return lines
}

func percent(done, total int) string { return fmt.Sprintf("%d%%", 100*done/total) }

func count(done, total int) string { return fmt.Sprintf("%d of %d packages", done, total) }
