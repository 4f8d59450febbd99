package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/ui"
)

// choice is one line of the menu: a command, and what is asked for it.
type choice struct {
	title  string
	args   []string
	asks   []asked
	writes bool // it changes something
}

// asked is one value of a command.
type asked struct {
	question string
	flag     string // "" for an argument
	optional bool
}

// choices are the screens of the terminal UI, line by line: each is a command
// that can be typed as well.
func choices() []choice {
	name := func(question string) []asked { return []asked{{question: question}} }
	return []choice{
		{title: "see tokens, keys and certificates", args: []string{"token", "list"}},
		{title: "look at one token", args: []string{"token", "info"}, asks: []asked{{"token (URI)", "token", true}}},
		{title: "enrol a key for a cluster", args: []string{"enroll"}, writes: true, asks: []asked{
			{"user name", "user", false}, {"groups, separated by commas", "group", true}, {"kubeconfig context to join", "context", true}}},
		{title: "change the PIN", args: []string{"token", "pin", "change"}, writes: true, asks: []asked{{"token (URI)", "token", true}}},
		{title: "set a new PIN where it is locked", args: []string{"token", "pin", "unblock"}, writes: true, asks: []asked{{"token (URI)", "token", true}}},
		{title: "see contexts and how they sign in", args: []string{"kubeconfig", "list"}},
		{title: "check a context: sign in to its cluster", args: []string{"kubeconfig", "check"}, asks: []asked{{"context", "", true}}},
		{title: "move a context's key to a token", args: []string{"kubeconfig", "migrate"}, writes: true, asks: name("context")},
		{title: "renew a certificate", args: []string{"certificate", "renew"}, writes: true, asks: []asked{{"enrolment", "", true}}},
		{title: "take the latest kubeconfig change back", args: []string{"kubeconfig", "undo"}, writes: true},
		{title: "see requests that wait for a decision", args: []string{"csr", "list", "--pending"}},
		{title: "look at a request", args: []string{"csr", "show"}, asks: name("request")},
		{title: "approve a request", args: []string{"csr", "approve"}, writes: true, asks: name("request")},
		{title: "deny a request", args: []string{"csr", "deny"}, writes: true, asks: name("request")},
		{title: "see what the agent does", args: []string{"agent", "status"}},
		{title: "see what was done with the keys", args: []string{"audit", "--since", "24h"}},
		{title: "lock every token", args: []string{"agent", "lock"}},
		{title: "make a ticket for somebody who joins", args: []string{"helpdesk", "ticket"}, writes: true, asks: []asked{{"user name", "for", false}, {"groups, separated by commas", "group", true}}},
		{title: "see tickets and bootstrap tokens", args: []string{"bootstrap-token", "list"}},
		{title: "find out what is wrong", args: []string{"doctor"}},
	}
}

// menu asks what to do, line by line, and does it, until the person leaves. It
// places no cursor and draws nothing twice: a screen reader reads it in order.
func (a *app) menu(ctx context.Context, readOnly bool) error {
	lines := bufio.NewReader(a.Stdin)
	var all []choice
	for _, c := range choices() {
		if !c.writes || !readOnly {
			all = append(all, c)
		}
	}
	for {
		w := a.out()
		w.line("What shall be done?")
		for i, c := range all {
			w.line("%3d  %s", i+1, c.title)
		}
		if err := w.flush(); err != nil {
			return err
		}
		answer, err := a.askLine(ctx, lines, "Number, or q to leave: ")
		if err != nil || answer == "q" || answer == "" {
			return endOfInput(err)
		}
		n, err := strconv.Atoi(answer)
		if err != nil || n < 1 || n > len(all) {
			w := a.err()
			w.line("There is no %q: type a number from 1 to %d, or q.", answer, len(all))
			if err := w.flush(); err != nil {
				return err
			}
			continue
		}
		if err := a.choose(ctx, lines, all[n-1]); err != nil {
			return endOfInput(err)
		}
	}
}

// endOfInput: who closes the input has left.
func endOfInput(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// choose asks for what the command needs, shows it, and runs it. What goes wrong
// with the command is told, and the menu goes on.
func (a *app) choose(ctx context.Context, lines *bufio.Reader, c choice) error {
	args := append([]string{}, c.args...)
	for _, q := range c.asks {
		hint := ": "
		if q.optional {
			hint = " (empty: the usual): "
		}
		value, err := a.askLine(ctx, lines, strings.ToUpper(q.question[:1])+q.question[1:]+hint)
		if err != nil {
			return err
		}
		values := []string{value}
		if q.flag == "group" {
			values = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		}
		for _, v := range values {
			switch {
			case v == "":
			case q.flag == "":
				args = append(args, "--", v)
			default:
				args = append(args, "--"+q.flag+"="+v)
			}
		}
	}
	w := a.out()
	shown := make([]string, len(args))
	for i, x := range args {
		shown[i] = csr.ShellQuote(x)
	}
	w.line("$ %s %s", a.name(), strings.Join(shown, " "))
	if err := w.flush(); err != nil {
		return err
	}
	kubeContext := a.context // the tree of commands forgets it
	if kubeContext != "" {
		args = append([]string{"--context=" + kubeContext}, args...)
	}
	ui.Report(a.Stderr, a.execute(ctx, args))
	a.context = kubeContext
	w.line("")
	return errors.Join(w.flush(), ctx.Err())
}

// askLine reads a line that is not secret.
func (a *app) askLine(ctx context.Context, lines *bufio.Reader, question string) (string, error) {
	if _, err := io.WriteString(a.Stdout, question); err != nil {
		return "", err
	}
	type read struct {
		line string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		line, err := lines.ReadString('\n')
		got <- read{line, err}
	}()
	select {
	case r := <-got:
		if r.err != nil && r.line == "" {
			return "", r.err
		}
		return strings.TrimSpace(r.line), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
