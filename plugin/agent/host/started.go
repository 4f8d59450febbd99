package host

import (
	"fmt"
	"os"
	"strconv"

	"github.com/kubehsm/kubehsm/plugin/process/child"
)

// PassedPort returns the listening socket that systemd has passed to this process
// (sd_listen_fds(3)), nil if it has passed none. It takes the variables out of the
// environment by unset ([os.Unsetenv]).
func PassedPort(getenv func(string) string, unset func(string) error) (*os.File, error) {
	const first = 3 // SD_LISTEN_FDS_START
	ours := getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) && getenv("LISTEN_FDS") == "1"
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := unset(name); err != nil {
			return nil, err
		}
	}
	if !ours {
		return nil, nil
	}
	return os.NewFile(first, "port"), child.CloseOnExec(first)
}

// ReadyFile returns the pipe on which [client.Ensure] waits for this process, nil if
// it was started otherwise. It takes the variable out of the environment by
// unset ([os.Unsetenv]), and closes what else it was started with beyond its
// streams: its starter had that from a shell, whose lock, say, would be held for
// as long as the agent lives. It is called before anything else opens files.
func ReadyFile(getenv func(string) string, unset func(string) error) (*os.File, error) {
	v := getenv(child.EnvReady)
	if v == "" {
		return nil, nil
	}
	if err := unset(child.EnvReady); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s is %q, not a descriptor", child.EnvReady, v)
	}
	f := os.NewFile(uintptr(fd), "ready")
	if f == nil {
		return nil, fmt.Errorf("%s: descriptor %d is not open", child.EnvReady, fd)
	}
	return f, child.DropInherited(fd)
}
