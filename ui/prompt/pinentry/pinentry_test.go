//go:build unix

package pinentry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestMain(m *testing.M) {
	if behaviour := os.Getenv("PINENTRY_TEST"); behaviour != "" {
		fakePinentry(behaviour)
		return
	}
	os.Exit(m.Run())
}

func testPIN() hsm.PINPrompt {
	return hsm.PINPrompt{
		Kind: hsm.PIVPIN, Token: hsm.TokenInfo{Scheme: hsm.SchemePIV, Label: "Ada's key", Serial: "1234567"}, Retries: 3,
		Purpose: hsm.Purpose{Cluster: "prod", Action: "sign in", Command: "kubectl get pods"},
	}
}

// fakePinentry answers as a pinentry does and logs what it is asked.
func fakePinentry(behaviour string) {
	log, err := os.OpenFile(os.Getenv("PINENTRY_LOG"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if behaviour == "silent" {
		select {}
	}
	fmt.Println("OK Pleased to meet you")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		line := in.Text()
		fmt.Fprintln(log, line)
		command, _, _ := strings.Cut(line, " ")
		switch {
		case command == "OPTION" && behaviour == "picky":
			fmt.Println("ERR 83886254 Unknown option <Pinentry>")
		case command != "GETPIN" && command != "CONFIRM":
			fmt.Println("# a comment\nOK")
		case behaviour == "cancel":
			fmt.Println("ERR 83886179 Operation cancelled <Pinentry>")
		case behaviour == "timeout":
			fmt.Println("ERR 83886142 Timeout <Pinentry>")
		case behaviour == "no-display":
			fmt.Println("ERR 83886165 No display <Pinentry>")
		case behaviour == "die":
			return
		case command == "CONFIRM":
			fmt.Println("OK")
		default:
			fmt.Println("S PASSWORD_FROM_CACHE\nD 12%2534\nD 56\nOK")
		}
	}
}

// pinentryFor writes a program that runs this binary as a fake pinentry.
func pinentryFor(t *testing.T, behaviour string) (program, log string) {
	t.Helper()
	dir := t.TempDir()
	program, log = filepath.Join(dir, "pinentry"), filepath.Join(dir, "log")
	script := fmt.Sprintf("#!/bin/sh\nPINENTRY_LOG='%s' PINENTRY_TEST='%s' exec '%s'\n", log, behaviour, os.Args[0])
	must.OK(t, os.WriteFile(program, []byte(script), 0o700))
	return program, log
}

func TestPinentry(t *testing.T) {
	for _, behaviour := range []string{"good", "picky"} {
		program, logFile := pinentryFor(t, behaviour)
		prompt := testPIN()
		prompt.Again = "wrong PIV PIN\n"
		s, err := New(program, time.Minute).PIN(context.Background(), prompt)
		if err != nil {
			t.Fatalf("%s: %v", behaviour, err)
		}
		if got := string(s.Bytes()); got != "12%3456" {
			t.Errorf("%s: the PIN is %q", behaviour, got)
		}
		said, err := os.ReadFile(logFile)
		must.OK(t, err)
		for _, want := range []string{
			`SETDESC Token "Ada's key" (serial 1234567) needs its PIV PIN to sign in to prod, for: kubectl get pods` + "\n",
			"SETPROMPT PIV PIN (3 tries left):\n", `SETERROR Wrong PIV PIN\n` + "\n", "SETTIMEOUT 60\n",
		} {
			if !strings.Contains(string(said), want) {
				t.Errorf("%s: %q is missing in:\n%s", behaviour, want, said)
			}
		}
	}
}

func TestPinentryErrors(t *testing.T) {
	for behaviour, want := range map[string]error{
		"cancel":     hsm.ErrCancelled,
		"timeout":    context.DeadlineExceeded,
		"no-display": hsm.ErrNoTerminal,
	} {
		program, _ := pinentryFor(t, behaviour)
		if _, err := New(program, time.Minute).PIN(context.Background(), testPIN()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", behaviour, err, want)
		}
	}
	program, _ := pinentryFor(t, "die")
	if _, err := New(program, time.Minute).PIN(context.Background(), testPIN()); err == nil {
		t.Error("a pinentry that died gave a PIN")
	}
	program, _ = pinentryFor(t, "silent")
	if _, err := New(program, 200*time.Millisecond).PIN(context.Background(), testPIN()); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("a silent pinentry: %v", err)
	}
	if _, err := New("/nonexistent/pinentry", time.Minute).PIN(context.Background(), testPIN()); !errors.Is(err,
		hsm.ErrNoTerminal) || hint.Of(err) == "" {
		t.Errorf("a missing pinentry: %v", err)
	}
}

func TestPinentryConfirm(t *testing.T) {
	for behaviour, want := range map[string]bool{"good": true, "cancel": false} {
		program, _ := pinentryFor(t, behaviour)
		yes, err := New(program, time.Minute).Confirm(context.Background(), hsm.ConfirmPrompt{Question: "go on?"})
		if err != nil || yes != want {
			t.Errorf("%s: %v, %v", behaviour, yes, err)
		}
	}
}

// TestLongQuestions: what a line of the protocol does not carry is left out with a mark, counted as it is encoded, and
// the question itself is always there.
func TestLongQuestions(t *testing.T) {
	long := strings.Repeat("100%\n\u00e9", 200)
	var fields []hsm.Field
	for _, label := range []string{"Request", "Namespace", "Does", "Program", "Cluster", "Body", "Process"} {
		fields = append(fields, hsm.Field{Label: label, Values: []string{long, strings.Repeat("%", 300)}})
	}
	purpose := hsm.Purpose{Fields: fields}
	for name, ask := range map[string]func(p hsm.Prompter) error{
		"Allow it?": func(p hsm.Prompter) error {
			_, err := p.Confirm(t.Context(), hsm.ConfirmPrompt{Question: "allow it?", Fields: fields})
			return err
		},
		"Go on?": func(p hsm.Prompter) error {
			_, err := p.Confirm(t.Context(), hsm.ConfirmPrompt{Question: "go on?", Detail: long})
			return err
		},
		"to allow it": func(p hsm.Prompter) error {
			prompt := testPIN()
			prompt.Purpose = purpose
			s, err := p.PIN(t.Context(), prompt)
			s.Zero()
			return err
		},
		"\u2026": func(p hsm.Prompter) error {
			_, err := p.Confirm(t.Context(), hsm.ConfirmPrompt{Question: long})
			return err
		},
	} {
		program, logFile := pinentryFor(t, "good")
		if err := ask(New(program, time.Minute)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		said, err := os.ReadFile(logFile)
		must.OK(t, err)
		for line := range strings.Lines(string(said)) {
			line = strings.TrimSuffix(line, "\n")
			if !strings.HasPrefix(line, "SETDESC ") {
				continue
			}
			if len(line) > 1000 || !strings.Contains(line, "\u2026") || !strings.HasSuffix(line, name) || !utf8.ValidString(line) ||
				strings.HasSuffix(line, "%\u2026") {
				t.Errorf("%d bytes: %s", len(line), line)
			}
		}
	}
}

func FuzzAssuan(f *testing.F) {
	f.Add([]byte("OK hi\nOK\nD 12%2534\nOK\n"))
	f.Add([]byte("ERR 99999999999 x\n"))
	f.Add([]byte("D %\nOK\n"))
	f.Fuzz(func(t *testing.T, answers []byte) {
		a := newAssuan(discard{}, strings.NewReader(string(answers)))
		if a.greeting() != nil {
			return
		}
		buf, err := a.data("GETPIN", make([]byte, 0, 16))
		if err == nil && len(buf) > 16 {
			t.Fatalf("%d bytes", len(buf))
		}
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
