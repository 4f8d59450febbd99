package child

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Shrink gives back the program's own pages that its start has touched; what is
// used again is mapped again from the page cache. Only mappings of files count that
// cannot be written and have no page that differs from its file (proc_pid_smaps(5)).
func Shrink() error {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer f.Close()
	var start, end uint64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"): // a mapping begins
			start, end = 0, 0
			from, to, _ := strings.Cut(fields[0], "-")
			if len(fields) == 6 && strings.HasPrefix(fields[5], "/") && strings.HasPrefix(fields[1], "r-") {
				if start, err = strconv.ParseUint(from, 16, 64); err != nil {
					return err
				}
				if end, err = strconv.ParseUint(to, 16, 64); err != nil {
					return err
				}
			}
		case len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" && end > start:
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start),
				unix.MADV_DONTNEED); errno != 0 {
				return os.NewSyscallError("madvise", errno)
			}
		}
	}
	return nil
}
