package client

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/socket"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

func newDirs(t *testing.T) home.Dirs {
	t.Helper()
	dir := t.TempDir()
	d, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: dir}[k] })
	check(t, err)
	check(t, d.Prepare())
	return d
}

// TestAgentThatDoesNotAnswer: it is said, with what to do.
func TestAgentThatDoesNotAnswer(t *testing.T) {
	d := newDirs(t)
	l, err := socket.Listen(d.Socket()) // a suspended agent accepts nothing
	check(t, err)
	defer l.Close()
	c, err := Dial(t.Context(), d)
	check(t, err)
	defer c.Close()
	_, err = wire.ReadWithin(c.link.Conn(), 10*time.Millisecond)
	err = c.lost(&link.Lost{Err: err})
	if !errors.Is(err, ErrNoAnswer) || !errors.Is(err, os.ErrDeadlineExceeded) ||
		!strings.Contains(hinting.Of(err), "kill -CONT ") {
		t.Fatalf("%v (hint: %s)", err, hinting.Of(err))
	}
}

// TestNobodyThere: no agent is an error of its own, with what to do.
func TestNobodyThere(t *testing.T) {
	if _, err := Dial(t.Context(), newDirs(t)); !errors.Is(err, ErrNotRunning) || hinting.Of(err) == "" {
		t.Errorf("%v (hint: %s)", err, hinting.Of(err))
	}
}
