package kubeconfig

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// contextLines is how many unchanged lines a hunk shows on either side.
const contextLines = 3

// Diff is the plan as a unified diff of all its files, with three lines of
// context; empty if the plan is. Keys, tokens, passwords and the like are
// replaced by a remark, so it is for reading, not for patch. The rest of the
// text is as it stands in the files, control characters included: clean it
// before it reaches a terminal.
func (p *Plan) Diff() string {
	var b strings.Builder
	for _, f := range p.files {
		b.WriteString(f.diff())
	}
	return b.String()
}

func (f *fileEdit) diff() string {
	from, to := f.path, f.path
	after := f.after
	if !f.exists {
		from = "/dev/null"
	}
	splices := f.splices
	if f.remove {
		to, after = "/dev/null", nil
		splices = []splice{{0, len(f.data), nil}}
	}
	text := string(f.data)
	u, err := udiff.ToUnifiedDiff(from, to, text, lineEdits(text, splices), contextLines)
	if err != nil {
		return fmt.Sprintf("--- %s\n+++ %s\n(no difference can be shown: %v)\n", from, to, err)
	}
	return render(u, redact(text), redact(string(after)))
}

// lineEdits narrows each splice to the lines that differ.
func lineEdits(text string, splices []splice) []udiff.Edit {
	var edits []udiff.Edit
	for i := 0; i < len(splices); {
		// Splices that share a line are compared together.
		j, end := i+1, splices[i].End
		for j < len(splices) && (splices[j].Start <= end || !strings.Contains(text[end:splices[j].Start], "\n")) {
			end = splices[j].End
			j++
		}
		start := lineStart([]byte(text), splices[i].Start)
		if end < len(text) && (end == 0 || text[end-1] != '\n' || end == splices[j-1].Start) {
			end = lineEnd([]byte(text), end)
		}
		old := text[start:end]
		var local []splice
		for _, s := range splices[i:j] {
			local = append(local, splice{s.Start - start, s.End - start, s.Text})
		}
		for _, e := range udiff.Lines(old, string(applySplices([]byte(old), local))) {
			edits = append(edits, udiff.Edit{Start: e.Start + start, End: e.End + start, New: e.New})
		}
		i = j
	}
	return edits
}

// render writes the hunks, taking each line's text from the redacted files.
func render(u udiff.UnifiedDiff, before, after []string) string {
	var b strings.Builder
	if len(u.Hunks) == 0 {
		return ""
	}
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", u.From, u.To)
	shift := 0 // h.ToLine leaves out equal lines within the hunks before
	for _, h := range u.Hunks {
		from, to := h.FromLine, h.FromLine+shift
		var lines strings.Builder
		olds, news := 0, 0
		for _, l := range h.Lines {
			sign := " "
			var text string
			switch l.Kind {
			case udiff.Delete:
				sign, text = "-", lineAt(before, from+olds)
				olds++
			case udiff.Insert:
				sign, text = "+", lineAt(after, to+news)
				news++
			default:
				text = lineAt(before, from+olds)
				olds++
				news++
			}
			lines.WriteString(sign + strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r") + "\n")
			if !strings.HasSuffix(l.Content, "\n") {
				lines.WriteString("\\ No newline at end of file\n")
			}
		}
		shift += news - olds
		fmt.Fprintf(&b, "@@ -%s +%s @@\n%s", hunkRange(from, olds), hunkRange(to, news), lines.String())
	}
	return b.String()
}

func hunkRange(start, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", max(0, start-1))
	case 1:
		return fmt.Sprint(start)
	}
	return fmt.Sprintf("%d,%d", start, count)
}

// lineAt is the line of number n, from 1.
func lineAt(lines []string, n int) string {
	if n < 1 || n > len(lines) {
		return redacted
	}
	return lines[n-1]
}
