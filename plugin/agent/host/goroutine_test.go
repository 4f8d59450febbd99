package host

import (
	"io"
	"log/slog"
	"runtime"
	"strings"
)

// goroutines counts the goroutines that are in a function of this package.
func goroutines(function string) int {
	b := make([]byte, 4<<20)
	n := 0
	for stack := range strings.SplitSeq(string(b[:runtime.Stack(b, true)]), "\n\n") {
		if strings.Contains(stack, function+"(") {
			n++
		}
	}
	return n
}

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
