package provider

import (
	"cmp"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
)

// words are a signer's standard error: passed on as they come, and their end is kept.
type words struct {
	in, out *os.File // the ends of a pipe; the signer writes to in
	done    chan struct{}

	mu   sync.Mutex
	kept []byte
}

const maxWords = 4 << 10

// listen gives the signer a pipe: a program that it leaves behind may keep that open without being
// waited for.
func listen(w io.Writer) (*words, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l := &words{in: in, out: out, done: make(chan struct{})}
	go l.pass(w)
	return l, nil
}

func (l *words) pass(w io.Writer) {
	defer close(l.done)
	b := make([]byte, maxWords)
	for {
		n, err := l.out.Read(b)
		l.mu.Lock()
		l.kept = append(l.kept, b[:n]...)
		l.kept = l.kept[max(0, len(l.kept)-maxWords):]
		l.mu.Unlock()
		if err != nil {
			return
		}
		// A client without a standard error still wants an answer.
		_, _ = w.Write(b[:n])
	}
}

// end returns the last words of a signer that has ended. It waits at most patience for another
// program that holds the pipe.
func (l *words) end(patience time.Duration) string {
	defer l.out.Close()
	_ = l.in.Close() // the signer has a copy
	select {
	case <-l.done:
	case <-time.After(patience):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.kept)
}

type failure struct {
	words  string // the end of the signer's output
	status string
	pin    string // the PIN, never to be quoted, or ""
}

// Error is the signer's last words or, if there are none, its exit status.
func (f *failure) Error() string {
	words := f.words
	if f.pin != "" {
		words = strings.ReplaceAll(words, f.pin, "(PIN)") // the PIN is spelled so before lines are put in order
	}
	lines := strings.FieldsFunc(words, func(r rune) bool { return r == '\n' || r == '\r' })
	last := ""
	for i := len(lines) - 1; i >= 0; i-- {
		line := printable(lines[i])
		if strings.HasPrefix(line, "hint:") && last == "" {
			last = line
			continue
		}
		if line != "" {
			last = strings.TrimSuffix(strings.TrimPrefix(line, "error: ")+"; "+last, "; ")
			break
		}
	}
	return "it failed: " + cmp.Or(last, f.status)
}

// names reports whether the signer refused the request's kind by name. The prototype's signer also
// prints each request, which is no refusal.
func (f *failure) names(kind string) bool {
	for line := range strings.Lines(f.words) {
		if strings.Contains(line, kind) && !strings.Contains(line, "{") {
			return true
		}
	}
	return false
}

const maxShown = 400

// printable makes the words of a signer, or a token's label, safe for a terminal.
func printable(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = unicode.ReplacementChar
		}
	}
	if len(runes) > maxShown {
		runes = append(runes[:maxShown], '…')
	}
	return string(runes)
}
