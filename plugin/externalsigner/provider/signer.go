package provider

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// patience is how long a signer that was told to end may take to leave the
// terminal in order.
const patience = 2 * time.Second

// signer starts the external program.
type signer struct {
	program string
	config  map[string]string
	options Options
	queue   chan struct{}
	signing atomic.Int32 // handshakes that wait for a signature

	mu     sync.Mutex
	failed error
	until  time.Time
}

// certificate asks for the certificate's answer.
func (s *signer) certificate(ctx context.Context) ([]byte, error) {
	request, err := wire.NewRequest(wire.KEP, s.config)
	if err != nil {
		return nil, err
	}
	return s.run(ctx, request)
}

// sign asks for a signature's answer.
func (s *signer) sign(ctx context.Context, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	request, err := wire.NewSignRequest(wire.KEP, s.config, digest, opts)
	if err != nil {
		return nil, err
	}
	return s.run(ctx, request)
}

// run runs the program once, when no other signer runs. After a failure it
// gives the same error for a while instead.
func (s *signer) run(ctx context.Context, request []byte) ([]byte, error) {
	select {
	case s.queue <- struct{}{}:
		defer func() { <-s.queue }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another external signer to end: %w", context.Cause(ctx))
	}
	if err := s.recent(); err != nil {
		return nil, err
	}
	answer, err := s.start(ctx, request)
	if !errors.Is(err, context.Canceled) { // which says nothing of the signer
		s.note(err)
	}
	return answer, err
}

func (s *signer) recent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil && time.Now().Before(s.until) {
		return s.failed
	}
	return nil
}

func (s *signer) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.until = err, time.Now().Add(s.options.CoolDown)
}

func (s *signer) start(ctx context.Context, request []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.program)
	cmd.Env = environment(os.Environ(), request)
	cmd.Stderr = s.options.Stderr
	if isTerminal(s.options.Stdin) {
		cmd.Stdin = s.options.Stdin
	}
	out := limited{most: wire.MaxAnswer}
	cmd.Stdout = &out
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = patience
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("external signer %s was ended: %w", s.program, context.Cause(ctx))
	case errors.As(err, &exit):
		return nil, fmt.Errorf("external signer %s failed: %s", s.program, exit.ProcessState)
	}
	return nil, fmt.Errorf("external signer %s: %w", s.program, err)
}

// environment is the signer's: ours, with this request and no other.
func environment(ours []string, request []byte) []string {
	env := slices.DeleteFunc(slices.Clone(ours), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(wire.EnvVars(), name)
	})
	return append(env, wire.EnvVar+"="+string(request))
}

// isTerminal tells whether a signer may have our standard input. A file or a
// pipe belongs to the client: kubectl apply -f -.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// limited keeps what is written to it, up to a size.
type limited struct {
	bytes.Buffer
	most int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > l.most {
		return 0, fmt.Errorf("its answer is longer than %d bytes", l.most)
	}
	return l.Buffer.Write(b)
}
