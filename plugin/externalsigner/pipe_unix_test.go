//go:build unix

package externalsigner

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// TestPipeIsNoLibrary: nobody waits for what comes out of it.
func TestPipeIsNoLibrary(t *testing.T) {
	pipe := filepath.Join(filepath.Dir(library(t)), "pipe")
	check(t, syscall.Mkfifo(pipe, 0o600))
	done := make(chan error, 1)
	go func() {
		_, err := Modules{}.admit(t.Context(), pipe, hsmtest.NewScript(t))
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, hsm.ErrModule) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits")
	}
}
