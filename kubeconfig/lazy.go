package kubeconfig

import (
	"regexp"
	"sync"
)

// lazy compiles an expression when it is first used: kubectl starts the program
// for every command, and most of them need none.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
