package externalsigner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// ErrUntrusted says that a kubeconfig names a library that nobody has vouched for.
var ErrUntrusted = errors.New("the library is not trusted")

// Modules decides on the PKCS#11 libraries that kubeconfigs name.
type Modules struct {
	// Known reports whether the system or the user's own configuration names the
	// library, whose path is given without links; nil knows none.
	Known func(path string) bool
	// State is the folder where confirmations are remembered, by path and
	// content; it is made when needed. "" remembers nothing.
	State string
}

const maxModule = 256 << 20

// admit returns the path from which the library may be loaded. It asks once about an unknown
// library.
func (m Modules) admit(ctx context.Context, path string, p hsm.Prompter) (string, error) {
	if !filepath.IsAbs(path) { // the loader would look elsewhere than we do
		return "", fmt.Errorf("%w: %.200q is not an absolute path", hsm.ErrModule, path)
	}
	real, err := filepath.EvalSymlinks(path) // load the confirmed file, wherever the link leads later
	if err != nil {
		return "", fmt.Errorf("%w: %w", hsm.ErrModule, err)
	}
	if m.Known != nil && m.Known(real) {
		if checkWriters(path) == nil { // the name of a link outlives the library's next version
			return path, nil
		}
		return real, nil
	}
	if err := checkWriters(real); err != nil {
		return "", err
	}
	digest, err := digestFile(real)
	if err != nil {
		return "", fmt.Errorf("%w: %w", hsm.ErrModule, err)
	}
	record := m.record(real, digest)
	confirmed, err := remembered(record)
	if err != nil || confirmed {
		return real, err
	}
	if err := trust(ctx, p, real, digest); err != nil {
		return "", err
	}
	return real, remember(record, real, digest)
}

// remembered reports whether a confirmation by this user is on record.
func remembered(record string) (bool, error) {
	if record == "" {
		return false, nil
	}
	err := home.CheckFile(record)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (m Modules) record(path, digest string) string {
	if m.State == "" {
		return ""
	}
	name := sha256.Sum256([]byte(path + "\x00" + digest))
	return filepath.Join(m.State, "modules", hex.EncodeToString(name[:])+".json")
}

func remember(record, path, digest string) error {
	if record == "" {
		return nil
	}
	if err := home.MakeDir(filepath.Dir(record)); err != nil {
		return err
	}
	b, err := json.MarshalIndent(struct {
		Path      string    `json:"path"`
		SHA256    string    `json:"sha256"`
		Confirmed time.Time `json:"confirmed"`
	}{path, digest, time.Now().UTC().Truncate(time.Second)}, "", "  ")
	if err != nil {
		return err
	}
	return home.WriteFile(record, append(b, '\n'))
}

func trust(ctx context.Context, p hsm.Prompter, path, digest string) error {
	refused := fmt.Errorf("%s: %w: a kubeconfig names it, but neither p11-kit nor your configuration does", path,
		ErrUntrusted)
	const next = "add it to `modules` in config.yaml if you trust it, or run the command in a terminal to be asked"
	if p == nil {
		return hint.With(fmt.Errorf("%w (%w)", refused, hsm.ErrNoTerminal), next)
	}
	yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{
		Detail: fmt.Sprintf("The kubeconfig wants kubehsm to load the library %q (SHA-256 %s).\n"+
			"Neither p11-kit nor your configuration names it. Its code would run as you and see the PIN.", path, digest),
		Question: "Load it, now and from now on?",
	})
	switch {
	case errors.Is(err, hsm.ErrNoTerminal):
		return hint.With(fmt.Errorf("%w (%w)", refused, err), next)
	case err != nil:
		return err
	case !yes:
		return fmt.Errorf("%w (%w)", refused, hsm.ErrCancelled)
	}
	return nil
}

func digestFile(path string) (string, error) {
	f, info, err := regularfile.Open(path, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info.Size() > maxModule {
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxModule)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
