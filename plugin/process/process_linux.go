package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// look reads the fields 22, the start in clock ticks after boot, and 4, the parent. A process that has ended (field 3)
// has neither.
func look(pid int) (start uint64, parent int, err error) {
	s, err := statOf(pid)
	if state := s.field(3); state == "Z" || state == "X" {
		return 0, 0, ErrEnded
	}
	return s.number(22), int(s.number(4)), err
}

// terminalOf reads field 7: the device number.
func terminalOf(pid int) uint64 {
	s, _ := statOf(pid) // no terminal is known
	return s.number(7)
}

// CheckUser fails with [ErrOtherUser] unless the process is this user's, or with an error of [Find].
func CheckUser(pid int) error {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return ended(pid, err)
	}
	_, rest, _ := bytes.Cut(b, []byte("\nUid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if ids := bytes.Fields(line); len(ids) < 2 || string(ids[1]) != strconv.Itoa(os.Geteuid()) { // the effective one
		return ErrOtherUser
	}
	return nil
}

// terminalName looks where the kernel's device numbers lead
// (Documentation/admin-guide/devices.txt), and whether it is there.
func terminalName(device uint64) string {
	major, minor := device>>8&0xfff, device&0xff|device>>12&0xfff00
	name := ""
	switch {
	case major >= 136 && major <= 143:
		name = "/dev/pts/" + strconv.FormatUint((major-136)<<8+minor, 10)
	case major == 4 && minor < 64:
		name = "/dev/tty" + strconv.FormatUint(minor, 10)
	case major == 4:
		name = "/dev/ttyS" + strconv.FormatUint(minor-64, 10)
	}
	return named(name, device)
}

// stat is /proc/PID/stat (proc_pid_stat(5)) from field 3 on: the second one may
// hold spaces, and ends at the last bracket.
type stat [][]byte

// The file is read by three system calls: package os would take nine, and the agent
// reads it for every command of kubectl.
func statOf(pid int) (stat, error) {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, ended(pid, err)
	}
	defer syscall.Close(fd)
	b := make([]byte, 4096) // more than 64 bytes of a name and 50 numbers take
	n, err := syscall.Read(fd, b)
	if err != nil {
		return nil, ended(pid, err)
	}
	b = b[:n]
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]), nil
}

// ended is [ErrEnded] if the process is not there, and not only hidden (hidepid, in proc(5)).
func ended(pid int, err error) error {
	if (errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH)) && (pid <= 0 || syscall.Kill(pid, 0) == syscall.ESRCH) {
		return ErrEnded
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

func (s stat) field(n int) string {
	if len(s) <= n-3 {
		return ""
	}
	return string(s[n-3])
}

func (s stat) number(n int) uint64 {
	value, err := strconv.ParseUint(s.field(n), 10, 64)
	if err != nil {
		return 0
	}
	return value
}
