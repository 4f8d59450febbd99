//go:build unix

package credential

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/creack/pty"

	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestNotCalledByKubectl: without a request, arguments are enough for a client,
// but not for a person on a terminal.
func TestNotCalledByKubectl(t *testing.T) {
	root := t.TempDir()
	c := Command{Getenv: func(k string) string { return map[string]string{home.EnvHome: root}[k] }}
	if err := c.Answer(context.Background(), ""); !errors.Is(err, execcredential.ErrNoRequest) {
		t.Errorf("nothing is named: %v", err)
	}
	c.Stdout = &bytes.Buffer{}
	if err := c.Answer(context.Background(), "prod"); !errors.Is(err, enrollment.ErrUnknown) {
		t.Errorf("a client that sends no request: %v", err)
	}
	screen, terminal, err := pty.Open()
	must.OK(t, err)
	defer screen.Close()
	defer terminal.Close()
	c.Stdout = terminal
	if err := c.Answer(context.Background(), "prod"); !errors.Is(err, execcredential.ErrNoRequest) {
		t.Errorf("on a terminal: %v", err)
	}
}
