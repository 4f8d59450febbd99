package token

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// ReleaseScdaemon has GnuPG's smart card daemon end and so let go of all cards;
// gpg starts it again when it needs it. It is for those who asked for it: a
// signature that gpg is making may fail.
func ReleaseScdaemon(ctx context.Context) error {
	path, err := exec.LookPath("gpgconf")
	if err != nil {
		return hint.With(fmt.Errorf("gpgconf, which ends GnuPG's scdaemon, was not found: %w", err),
			"install GnuPG, or end scdaemon yourself")
	}
	out, err := exec.CommandContext(ctx, path, "--kill", hsm.Scdaemon).CombinedOutput()
	if err == nil {
		return nil
	}
	if words := strings.TrimSpace(string(bytes.ToValidUTF8(out, nil))); words != "" {
		err = errors.New(words)
	}
	return hint.With(fmt.Errorf("gpgconf --kill scdaemon: %w", err),
		"end scdaemon yourself, or unplug the token and plug it in again")
}
