package link

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// TestLongFailure: an error with the names of a hostile certificate is told.
func TestLongFailure(t *testing.T) {
	long := "x" + strings.Repeat("\u00e4", 100_000) + strings.Repeat("\x01", 100_000)
	f := Codes{}.Failure(hint.With(errors.New(long), long))
	if err := wire.WriteJSON(io.Discard, event{Error: f}); err != nil {
		t.Error(err)
	}
	if !utf8.ValidString(f.Message) || !strings.HasPrefix(f.Message, "xä") || !strings.HasSuffix(f.Message, "ä…") {
		t.Errorf("%q", f.Message)
	}
	if short := Short("short"); short != "short" {
		t.Error(short)
	}
}
