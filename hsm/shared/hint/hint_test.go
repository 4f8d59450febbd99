package hint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

func TestOutermostHint(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("around: %w", hint.Withf(cause, "try %d", 1))
	if hint.Of(err) != "try 1" || err.Error() != "around: cause" || !errors.Is(err, cause) {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	if err = hint.With(err, "try 2"); hint.Of(err) != "try 2" {
		t.Errorf("hint %q, want the outermost", hint.Of(err))
	}
	if hint.With(nil, "x") != nil || hint.With(cause, "") != cause || hint.Of(cause) != "" || hint.Of(nil) != "" {
		t.Error("something was made of nothing")
	}
}
