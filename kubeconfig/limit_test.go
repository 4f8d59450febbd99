package kubeconfig

import (
	"fmt"
	"strings"
	"testing"
)

// lowLimit has wholeLimit be reached by a small file.
func lowLimit(t *testing.T) {
	t.Helper()
	before := wholeLimit
	wholeLimit = 8 << 10
	t.Cleanup(func() { wholeLimit = before })
}

// padded is text after a comment that makes it size bytes long.
func padded(t testing.TB, text string, size int) string {
	t.Helper()
	eol := "\n"
	if strings.Contains(text, "\r\n") {
		eol = "\r\n"
	}
	var b strings.Builder
	for line := "#" + strings.Repeat("-", 1022-len(eol)) + "." + eol; b.Len()+2*len(line) < size-len(text); {
		b.WriteString(line)
	}
	b.WriteString("#" + strings.Repeat("-", size-len(text)-b.Len()-1-len(eol)) + eol + text)
	if b.Len() != size {
		t.Fatalf("%d bytes, not %d", b.Len(), size)
	}
	return b.String()
}

// TestShapesAtTheLimit edits every shape of a file where its size, or what the
// edits make of it, is about wholeLimit.
func TestShapesAtTheLimit(t *testing.T) {
	lowLimit(t)
	for name, c := range shapes {
		for _, size := range []int{wholeLimit - 400, wholeLimit + 1} {
			t.Run(fmt.Sprintf("%s/%d", name, size-wholeLimit), func(t *testing.T) {
				checkShape(t, padded(t, c.text, size), c.keep)
			})
		}
	}
}
