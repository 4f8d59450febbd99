//go:build unix

package externalsigner

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm"
)

// checkWriters refuses a library that anybody but the user and root can change.
func checkWriters(path string) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return fmt.Errorf("%w: %w", hsm.ErrModule, err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%s: %w: %s belongs to user id %d", path, ErrUntrusted, at, st.Uid)
		}
		sticky := info.IsDir() && info.Mode()&os.ModeSticky != 0 // in /tmp, for instance, only owners rename
		link := info.Mode()&os.ModeSymlink != 0                  // a change needs write permission in the link's folder
		if info.Mode().Perm()&0o022 != 0 && !sticky && !link {
			return fmt.Errorf("%s: %w: others can change %s (mode %04o)", path, ErrUntrusted, at, info.Mode().Perm())
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
