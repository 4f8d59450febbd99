package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui"
)

// choice is one line of the menu: a command, and what is asked for it.
type choice struct {
	title  string
	args   []string
	asks   []asked
	writes bool // the command changes something
}

// asked is one value of a command.
type asked struct {
	question string
	flag     string // "" for an argument
	optional bool
}

// menu asks what to do, line by line, and does it, until the person leaves. It
// moves no cursor and draws nothing twice: a screen reader reads it in order.
func (a *app) menu(ctx context.Context, readOnly bool) error {
	lines := &lineReader{in: bufio.NewReader(a.Stdin)}
	var all []choice
	shown := 0
	for i, list := range [][]choice{choices(), moreChoices()} {
		for _, c := range list {
			if !c.writes || !readOnly {
				all = append(all, c)
			}
		}
		if i == 0 {
			shown = len(all)
		}
	}
	for {
		w := a.out()
		w.line("What do you want to do?")
		for i, c := range all[:shown] {
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
		if all[n-1].title == moreTitle {
			shown = len(all)
			continue
		}
		if err := a.part(ctx, func(ctx context.Context) error { return a.choose(ctx, lines, all[n-1]) }); err != nil {
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

// part runs f, which ctrl-c ends without ending the menu.
func (a *app) part(ctx context.Context, f func(context.Context) error) error {
	if a.Part == nil {
		return f(ctx)
	}
	within, stop := a.Part(ctx)
	defer stop()
	err := f(within)
	if within.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// choose asks for what the command needs, shows it, and runs it. What goes wrong
// with the command is told, and the menu goes on.
func (a *app) choose(ctx context.Context, lines *lineReader, c choice) error {
	args, arguments := append([]string{}, c.args...), []string(nil)
	for _, q := range c.asks {
		hint := ": "
		if q.optional {
			hint = " (empty for the default): "
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
				arguments = append(arguments, v)
			default:
				args = append(args, "--"+q.flag+"="+v)
			}
		}
	}
	if len(arguments) > 0 {
		args = append(append(args, "--"), arguments...)
	}
	w := a.out()
	shown := make([]string, len(args))
	for i, x := range args {
		shown[i] = shell.Quote(x)
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

// lineReader reads lines, each by a call of its own: one that is abandoned reads on, and
// the next question takes its line.
type lineReader struct {
	in      *bufio.Reader
	pending chan readLine
}

type readLine struct {
	line string
	err  error
}

// askLine reads a line that is not secret.
func (a *app) askLine(ctx context.Context, lines *lineReader, question string) (string, error) {
	if _, err := io.WriteString(a.Stdout, question); err != nil {
		return "", err
	}
	if lines.pending == nil {
		got := make(chan readLine, 1)
		lines.pending = got
		go func() {
			line, err := lines.in.ReadString('\n')
			got <- readLine{line, err}
		}()
	}
	select {
	case r := <-lines.pending:
		lines.pending = nil
		if r.err != nil && r.line == "" {
			return "", r.err
		}
		return strings.TrimSpace(r.line), nil
	case <-ctx.Done():
		_, err := io.WriteString(a.Stdout, "\n")
		return "", errors.Join(context.Cause(ctx), err)
	}
}
