package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

// TestNoteLevels: what fails is a warning; a key that wants a person is none.
func TestNoteLevels(t *testing.T) {
	for level, err := range map[string]error{
		"WARN": errors.New("connection refused"),
		"INFO": fmt.Errorf("sign in: the key needs a touch: %w", hsm.ErrPINRequired),
	} {
		var log bytes.Buffer
		r := record{log: slog.New(slog.NewTextHandler(&log, nil)), enrollment: "prod"}
		r.note(err)
		if !strings.Contains(log.String(), "level="+level) || r.lastError.Load() != err.Error() {
			t.Errorf("%v: %s", err, log.String())
		}
	}
}
