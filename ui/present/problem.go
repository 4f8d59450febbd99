package present

import (
	"errors"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Problems says what could not be listed: its source, what went wrong, and as a note
// what to do. Where tokens were found, nobody wants to hear that a kind of token that
// they lack is not there.
func Problems(all []hsm.Problem, found bool) []Fact {
	var facts []Fact
	for _, p := range all {
		if found && errors.Is(p.Err, hsm.ErrNoToken) {
			continue
		}
		source := text.Clean(p.Source)
		msg := strings.ReplaceAll(ui.Message(p.Err), "\n", " ")
		for _, said := range []string{"list the tokens of " + source + ": ",
			hsm.ErrModule.Error() + ": the library " + source + " "} {
			msg = strings.TrimPrefix(msg, said) // the source is named already
		}
		facts = append(facts, Fact{Name: source, Value: msg, Level: Warn, Note: ui.Hint(p.Err)})
	}
	return facts
}
