package provider

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// patience is the time that a signer gets to restore the terminal.
const patience = 2 * time.Second

type program struct {
	path    string
	config  map[string]string
	options Options
	// dialect is the one that the signer has understood.
	dialect wire.Dialect
}

// String is its name, for errors.
func (p *program) String() string { return quoted(p.path) }

func (p *program) certificate(ctx context.Context) ([]*x509.Certificate, error) {
	chain, err := p.certificateIn(ctx, p.dialect)
	// A signer of the prototype's kinds fails before it asks for anything.
	said := new(failure)
	if p.dialect == wire.KEP && errors.As(err, &said) && said.names(wire.KEP.Kind(wire.Certificate)) {
		if chain, err = p.certificateIn(ctx, wire.Prototype); err == nil {
			p.dialect = wire.Prototype
		}
	}
	return chain, err
}

func (p *program) certificateIn(ctx context.Context, d wire.Dialect) ([]*x509.Certificate, error) {
	request, err := wire.NewRequest(d, p.config)
	if err != nil {
		return nil, err
	}
	answer, err := p.run(ctx, request)
	if err != nil {
		return nil, err
	}
	return wire.ParseCertificateAnswer(answer)
}

func (p *program) sign(ctx context.Context, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	request, err := wire.NewSignRequest(p.dialect, p.config, digest, opts)
	if err != nil {
		return nil, err
	}
	answer, err := p.run(ctx, request)
	if err != nil {
		return nil, err
	}
	return wire.ParseSignAnswer(answer)
}

func (p *program) run(ctx context.Context, request []byte) ([]byte, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	cmd := exec.CommandContext(ctx, p.path)
	cmd.Env = environment(os.Environ(), request)
	words, err := listen(p.options.Stderr)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = words.in
	if isTerminal(p.options.Stdin) {
		cmd.Stdin = p.options.Stdin
	}
	out := limited{most: wire.MaxAnswer, over: end}
	cmd.Stdout = &out
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = patience
	err = cmd.Run()
	said := words.end(patience)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.kept.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it was ended: %w", context.Cause(ctx))
	case errors.As(err, &exit):
		return nil, &failure{said, exit.ProcessState.String(), p.config[wire.KeyPIN]}
	case errors.Is(err, exec.ErrWaitDelay):
		return nil,
			errors.New("it ended, and a program that it started still holds its output: start that one with an output of " +
				"its own (>/dev/null 2>&1)")
	case cmd.Process == nil:
		return nil, notStarted(err, len(request))
	}
	return nil, err
}

func notStarted(err error, size int) error {
	if errors.Is(err, syscall.E2BIG) {
		return fmt.Errorf("its request of %d bytes and the environment are more than a program can be started with: "+
			"shorten the auth provider's config in the kubeconfig", size)
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("it could not be started: %w", err)
}

// environment is ours, with this request and no other.
func environment(ours []string, request []byte) []string {
	env := slices.DeleteFunc(slices.Clone(ours), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(wire.EnvVars(), name)
	})
	return append(env, wire.EnvVar+"="+string(request))
}

// isTerminal reports whether a signer may have our standard input. A file or pipe belongs to the
// client: kubectl apply -f -.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// limited keeps what is written to it, and ends the writer at the limit. The buffer is not
// embedded: its ReadFrom would bypass Write.
type limited struct {
	kept bytes.Buffer
	most int
	over context.CancelCauseFunc
}

// Write implements [io.Writer].
func (l *limited) Write(b []byte) (int, error) {
	if l.kept.Len()+len(b) > l.most {
		err := fmt.Errorf("its answer is longer than %d bytes", l.most)
		l.over(err)
		return 0, err
	}
	return l.kept.Write(b)
}
