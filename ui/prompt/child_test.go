//go:build unix

package prompt

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/prompt/pinentry"
)

func TestMain(m *testing.M) {
	lockless()
	if mode := os.Getenv("PROMPT_TEST_CHILD"); mode != "" {
		runChild(mode)
		return
	}
	// Under nohup the children would inherit an ignored SIGHUP, which the prompt
	// respects; once caught here, they start with the default.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	if err := flag.Set("test.parallel", "8"); err != nil { // each test waits for its programs
		panic(err)
	}
	os.Exit(m.Run())
}

var testToken = hsm.TokenInfo{Scheme: hsm.SchemePIV, Label: "Ada's key", Serial: "1234567"}

func testPIN() hsm.PINPrompt {
	return hsm.PINPrompt{
		Kind: hsm.PIVPIN, Token: testToken, Retries: 3,
		Purpose: hsm.Purpose{Cluster: "prod", Action: "sign in", Command: "kubectl get pods"},
	}
}

// digest names a PIN in the output without showing it.
func digest(pin string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(pin)))[:12] }

// runChild is the program that the tests run on a terminal. Its last line
// starts with RESULT.
func runChild(mode string) {
	ctx := context.Background()
	terminal := NewTerminal(TerminalOptions{LockDir: os.Getenv("PROMPT_TEST_LOCKDIR")})
	t := ask.Func(terminal.Ask)
	verb, arg, _ := strings.Cut(mode, ":")
	switch verb {
	case "pin":
		pinResult(t.PIN(ctx, testPIN()))
	case "new":
		p := testPIN()
		p.New, p.Token.PIN.MinLen, p.Token.PIN.MaxLen = true, 6, 8
		pinResult(t.PIN(ctx, p))
	case "lines": // until a line ends with a full stop
		pinResult(t.PIN(ctx, hsm.PINPrompt{Kind: "ticket", Retries: -1,
			More: func(b []byte) bool { return !strings.HasSuffix(string(b), ".") }}))
	case "after-stdin":
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Fprintf(os.Stderr, "got %q\n", line)
		pinResult(t.PIN(ctx, testPIN()))
	case "pin-then-stdin":
		pinResult(t.PIN(ctx, testPIN()))
		rest, _ := io.ReadAll(os.Stdin)
		fmt.Fprintf(os.Stderr, "STDIN %q\n", rest)
	case "timeout":
		pinResult(ask.Func(NewTerminal(TerminalOptions{Timeout: 300 * time.Millisecond}).Ask).PIN(ctx, testPIN()))
	case "context":
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		pinResult(t.PIN(ctx, testPIN()))
	case "panic":
		childPanic()
	case "confirm":
		confirmResult(t.Confirm(ctx, hsm.ConfirmPrompt{
			Question: "go on?", Detail: "first line\nsecond \x1b[31m line", DefaultYes: arg == "yes",
		}))
	case "question":
		confirmResult(t.Confirm(ctx, longQuestion()))
	case "question-touch":
		done := t.Touch(ctx, hsm.TouchPrompt{Token: testToken, Purpose: hsm.Purpose{Fields: longQuestion().Fields}})
		waitLine()
		done()
		fmt.Fprintln(os.Stderr, "RESULT touched")
	case "type":
		confirmResult(t.Confirm(ctx, hsm.ConfirmPrompt{Question: "erase it?", Type: "1234567"}))
	case "typed":
		confirmResult(t.Confirm(ctx, hsm.ConfirmPrompt{Question: "approve it?", Wanted: "the words, or jane",
			Typed: func(s string) bool { return s == "jane" }}))
	case "touch":
		if arg == "bell" {
			touchBell = 500 * time.Millisecond
		}
		q := hsm.TouchPrompt{Token: testToken, Purpose: testPIN().Purpose}
		if arg == "pad" {
			q.Pad = hsm.UserPIN
		}
		done := t.Touch(ctx, q)
		if arg == "pin" {
			waitLine()
			pin, err := t.PIN(ctx, testPIN())
			defer pinResult(pin, err)
		}
		waitLine()
		done()
		fmt.Fprintln(os.Stderr, "RESULT touched")
	case "shared":
		writing := make(chan struct{})
		go func() {
			waitLine()
			close(writing) // announce the writing before it begins
			fmt.Fprintln(os.Stderr, othersLine)
		}()
		childShared(ctx, t, arg, writing)
	case "wait":
		done := terminal.Waiting(waitingText, os.Stdout)
		waitLine()
		done()
		done = terminal.Waiting(waitingText, os.Stdout) // for the same, again
		waitLine()
		done()
		fmt.Fprintln(os.Stderr, "RESULT waited")
	case "pin-then-wait":
		pinResult(t.PIN(ctx, testPIN()))
		waitLine()
		fmt.Fprintln(os.Stderr, "RESULT waited")
	case "pinentry":
		pinResult(pinentry.New(arg, time.Minute).PIN(ctx, testPIN()))
	}
}

// longQuestion has more to say than a small terminal has room for.
func longQuestion() hsm.ConfirmPrompt {
	p := hsm.ConfirmPrompt{Question: "allow it?", Detail: "A program wants to",
		Notice: "The consent policy of prod was lowered."}
	for _, label := range questionLabels {
		f := hsm.Field{Label: label, Values: []string{"\x1b[2Jvalue of " + label + strings.Repeat(" and more of it", 12)}}
		for i := 0; label == "Does" && i < 9; i++ {
			f.Values = append(f.Values, fmt.Sprint("line ", i, "\nProgram  /usr/bin/kubectl"))
		}
		p.Fields = append(p.Fields, f)
	}
	return p
}

var questionLabels = []string{"Request", "Namespace", "Does", "Body", "Program", "Process", "Cluster", "A yes"}

// othersLine is what another program writes while a prompt is shown.
const othersLine = `configmap "other" deleted`

// childShared asks on a terminal that others write to, from the start or, where what
// ends in "later", once they have.
func childShared(ctx context.Context, terminal ask.Func, what string, writing <-chan struct{}) {
	what, late := strings.CutSuffix(what, " later")
	t := ask.Func(func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		q.Shared = func() bool {
			select {
			case <-writing:
				return true
			default:
				return !late
			}
		}
		return terminal(ctx, q)
	})
	switch what {
	case "pin":
		pinResult(t.PIN(ctx, testPIN()))
	case "confirm":
		confirmResult(t.Confirm(ctx, hsm.ConfirmPrompt{Question: "go on?", Detail: "first line"}))
	case "touch":
		done := t.Touch(ctx, hsm.TouchPrompt{Token: testToken, Purpose: testPIN().Purpose})
		<-writing
		waitLine()
		done()
		fmt.Fprintln(os.Stderr, "RESULT touched")
	}
}

// waitLine waits for the parent's go-ahead on stdin, byte by byte.
func waitLine() {
	b := make([]byte, 1)
	for {
		if n, err := os.Stdin.Read(b); err != nil || (n == 1 && b[0] == '\n') {
			return
		}
	}
}

func childPanic() {
	defer func() { fmt.Fprintf(os.Stderr, "RESULT panic %v\n", recover()) }()
	c, err := openConsole()
	if err != nil {
		panic(err)
	}
	_, _ = c.readLine(context.Background(), readOptions{
		timeout: time.Minute,
		jobs:    &jobs{},
		draw:    func() { panic("while echo is off") },
		erase:   func() {},
	}, make([]byte, 8))
}

func confirmResult(yes bool, err error) { fmt.Fprintf(os.Stderr, "RESULT %v %v\n", yes, err) }

func pinResult(s *hsm.Secret, err error) {
	defer s.Zero()
	switch {
	case err == nil:
		fmt.Fprintf(os.Stderr, "RESULT pin %s\n", digest(string(s.Bytes())))
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintf(os.Stderr, "RESULT timed out: %v\n", err)
	default:
		fmt.Fprintf(os.Stderr, "RESULT %s: %v; hint: %s\n", hsm.ErrorCode(err), err, hint.Of(err))
	}
}
