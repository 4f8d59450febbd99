package prompt

import (
	"fmt"
	"io"
	"strings"

	"github.com/kubehsm/kubehsm/ui/present/question"
	"github.com/kubehsm/kubehsm/ui/text"
)

// block is a prompt on the screen: clean lines, and the label before the answer. Errors of writing
// are ignored: reading from that terminal fails too.
type block struct {
	w     io.Writer
	room  func() question.Room
	ansi  bool
	keep  func() bool // others may write to the terminal: none of it is taken off again; may be nil
	above []string
	label string
}

func (b block) draw() {
	out := ""
	for _, line := range b.above {
		out += line + "\n"
	}
	_, _ = io.WriteString(b.w, out+b.label)
}

// erase removes the block and the echoed answer. below says that the cursor is on the next line, as
// after Enter with echo. Without escape sequences the block stays.
func (b block) erase(answer string, below bool) {
	if !b.ansi || b.keep != nil && b.keep() {
		if !below {
			_, _ = io.WriteString(b.w, "\n")
		}
		return
	}
	up := b.rows(b.label+text.Clean(answer)) - 1
	for _, line := range b.above {
		up += b.rows(line)
	}
	if below {
		up++
	}
	out := "\r"
	if up > 0 {
		out += fmt.Sprintf("\x1b[%dA", up)
	}
	_, _ = io.WriteString(b.w, out+"\x1b[J")
}

func (b block) rows(line string) int {
	columns := b.room().Columns
	if columns < 1 {
		return 1
	}
	return max(1, (text.Width(strings.TrimRight(line, "\n"))+columns-1)/columns)
}
