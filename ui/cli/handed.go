package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Secrets that are handed to a person, as prompts name them.
const (
	ticketKind         hsm.PINKind = "ticket"
	bootstrapTokenKind hsm.PINKind = "bootstrap token"
)

// handed reads the secret of a flag: "-" is standard input, or a prompt if that is a terminal, ""
// is a prompt, and any other value is a file or, with a warning, the secret itself. Errors do not
// repeat the value: it may be a mistyped secret. The caller wipes the result.
func (a *app) handed(ctx context.Context, flag, value string, kind hsm.PINKind) ([]byte, error) {
	switch {
	case value == "-" && !isTerminal(a.Stdin):
		b, err := a.readAll("-")
		return bytes.TrimSpace(b), err
	case value == "", value == "-": // waiting for input on a terminal would look like hanging
		return a.askHanded(ctx, flag, kind)
	case isHanded([]byte(value)):
		w := a.err()
		w.line("warning: other users of this computer can read the %s on the command line; "+
			"give it with --%s=-, in a file, or to the prompt", kind, flag)
		return []byte(value), w.flush()
	}
	b, err := readHanded(value)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) > maxHanded {
		return nil, &ui.UsageError{Err: hint.With(fmt.Errorf("--%s: neither a %s nor a file with one", flag, kind),
			"give - to read it from standard input, or leave the flag out to be asked")}
	}
	if err != nil {
		return nil, &ui.UsageError{Err: fmt.Errorf("--%s: %w", flag, errors.Unwrap(err))}
	}
	return bytes.TrimSpace(b), nil
}

const maxHanded = 1 << 16

// readHanded reads a file, or a pipe such as the shell's <(…), up to its limit.
func readHanded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxHanded+1))
}

// isHanded distinguishes a secret from the path of a file.
func isHanded(text []byte) bool {
	if t, err := bootstraptoken.Parse(text); err == nil {
		t.Wipe()
		return true
	}
	return enrolling.IsFileOnly(text) || ticket.Is(text) && len(text) > 64
}

func (a *app) askHanded(ctx context.Context, flag string, kind hsm.PINKind) ([]byte, error) {
	prompt := hsm.PINPrompt{Kind: kind, Retries: -1}
	if kind == ticketKind { // a mail may have broken a ticket into lines, or it was copied with its box
		prompt.More = ticket.Begun
	}
	s, err := a.prompter().PIN(ctx, prompt)
	if errors.Is(err, hsm.ErrNoTerminal) {
		return nil, hint.With(err, fmt.Sprintf("give the %s with --%s=- on standard input, or in a file", kind, flag))
	}
	if err != nil {
		return nil, err
	}
	defer s.Zero()
	return bytes.TrimSpace(bytes.Clone(s.Bytes())), nil
}

func (a *app) handedToken(ctx context.Context, flag, value string) (bootstraptoken.Token, error) {
	text, err := a.handed(ctx, flag, value, bootstrapTokenKind)
	if err != nil {
		return bootstraptoken.Token{}, err
	}
	defer clear(text)
	t, err := bootstraptoken.Parse(text)
	return t, usage(err)
}

// handedFiler is handed for the token that files a join's request: a bootstrap token or a file-only
// token.
func (a *app) handedFiler(ctx context.Context, flag, value string, j *enrolling.Join) error {
	text, err := a.handed(ctx, flag, value, bootstrapTokenKind)
	if err != nil {
		return err
	}
	defer clear(text)
	return usage(j.SetToken(text))
}

func (a *app) handedTicket(ctx context.Context, flag, value string) (ticket.Ticket, error) {
	text, err := a.handed(ctx, flag, value, ticketKind)
	if err != nil {
		return ticket.Ticket{}, err
	}
	defer clear(text)
	t, err := ticket.Parse(text)
	return t, usage(err)
}
