package enrolling

import (
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// Anew is the command that enrolls e anew with another key or token, which with says as
// flags: what is begun anew takes nothing from the record.
func Anew(e enrollment.Enrollment, with ...string) string {
	if e.Context == "" { // a join begins anew by its ticket
		return strings.Join(append([]string{e.Anew()}, with...), " ")
	}
	words := append([]string{"kubehsm enroll --restart --name", e.Name}, with...)
	words = append(words, "--user", shell.Quote(e.User), "--context", shell.Quote(e.Context))
	for _, g := range e.Groups {
		words = append(words, "--group", shell.Quote(g))
	}
	return strings.Join(words, " ")
}
