package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// accessList is the attribute that holds a file's access control list (acl(5)).
const accessList = "system.posix_acl_access"

// maxAttribute bounds a value, and a list of names (xattr(7)).
const maxAttribute = 64 << 10

// keepAttributes gives f the extended attributes of the file at target, among them its access control list, and
// returns the mode that f is to have. Where the list cannot be kept, the group gets no right: what the mode shows as the
// group's is then the most that the list gives to anybody.
func keepAttributes(f *os.File, target string, mode fs.FileMode) (fs.FileMode, error) {
	fd := int(f.Fd())
	// What the folder hands down to a new file would come into force with the mode.
	if err := unix.Fremovexattr(fd, accessList); err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP) {
		return 0, fmt.Errorf("keep the file's access control list: %w", err)
	}
	names, value := make([]byte, maxAttribute), make([]byte, maxAttribute)
	n, err := unix.Listxattr(target, names)
	if errors.Is(err, unix.ENOTSUP) {
		return mode, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the file's attributes: %w", err)
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !isKept(name) {
			continue
		}
		n, err := unix.Getxattr(target, name, value)
		if err == nil {
			err = unix.Fsetxattr(fd, name, value[:n], 0)
		}
		switch {
		case err == nil, strings.HasPrefix(name, "security."): // the system's own rules say who may set a label
		case name == accessList:
			mode &^= 0o070
		default:
			return 0, fmt.Errorf("keep the file's attribute %q: %w", name, err)
		}
	}
	return mode, nil
}

// isKept reports whether an attribute says something of the file, and not of its former content.
func isKept(name string) bool {
	switch name {
	case "security.ima", "security.evm", "security.capability":
		return false
	}
	return name == accessList || strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "security.")
}
