package present

import (
	"path"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/text"
)

// once, without its folder.
func Problem(p hsm.Problem) string {
	source := text.Clean(p.Source)
	short := source
	if strings.HasPrefix(source, "/") {
		short = path.Base(source)
	}
	msg := strings.ReplaceAll(ui.Message(p.Err), "\n", " ")
	msg = strings.TrimPrefix(msg, "list the tokens of "+source+": ")
	msg = strings.TrimPrefix(msg, hsm.ErrModule.Error()+": the library "+source+" ")
	return short + ": " + strings.ReplaceAll(msg, source, short)
}
