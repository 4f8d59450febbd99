package credential

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/ui"
)

// TestArguments: what is wrong with the arguments is usage; nothing but a
// credential ever goes to standard output.
func TestArguments(t *testing.T) {
	for _, tc := range []struct {
		args  string
		code  int
		words string
	}{
		{"extra", ui.ExitUsage, `unexpected argument "extra"`},
		{"--bad", ui.ExitUsage, "unknown flag: --bad"},
		{"--enrollment", ui.ExitUsage, "flag needs an argument"},
		{"--enrollment prod", ui.ExitFailed, execcredential.EnvVar + " is not set"},
	} {
		var out, errs strings.Builder
		c := Command{Getenv: func(string) string { return "" }, Stdout: &out, Stderr: &errs}
		err := c.Run(context.Background(), strings.Fields(tc.args))
		if ui.ExitCode(err) != tc.code || !strings.Contains(ui.Message(err), tc.words) {
			t.Errorf("%s: exit code %d, %v", tc.args, ui.ExitCode(err), err)
		}
		if out.Len() > 0 {
			t.Errorf("%s: standard output got %q", tc.args, out.String())
		}
	}
}

func TestNotCalledByKubectl(t *testing.T) {
	c := Command{Getenv: func(string) string { return "" }}
	if err := c.Answer(context.Background(), "prod"); !errors.Is(err, execcredential.ErrNoRequest) {
		t.Errorf("got %v", err)
	}
}
