//go:build unix

package home

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

func checkOwner(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return hint.Withf(fmt.Errorf("%s belongs to user id %d: %w", path, st.Uid, ErrUnsafe),
			"set %s to a folder of yours", EnvHome)
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return hint.Withf(fmt.Errorf("%s can be changed by others (mode %04o): %w", path, perm, ErrUnsafe),
			"chmod go-w %s", path)
	}
	return nil
}
