package process

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// look reads the fields 22, the start in clock ticks after boot, and 4, the parent. A process that has ended (field 3)
// has neither.
func look(pid int) (start uint64, parent int) {
	s := statOf(pid)
	if state := s.field(3); state == "Z" || state == "X" {
		return 0, 0
	}
	return s.number(22), int(s.number(4))
}

// terminalOf reads field 7: the device number.
func terminalOf(pid int) uint64 { return statOf(pid).number(7) }

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
func statOf(pid int) stat {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	b := make([]byte, 4096) // more than 64 bytes of a name and 50 numbers take
	n, err := syscall.Read(fd, b)
	if err != nil {
		return nil
	}
	b = b[:n]
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
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

// Inside is the number that the process has in its own pid namespace, and how many
// namespaces that one is inside ours; 0 where that cannot be told.
func (p ID) Inside() (pid, depth int) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/status")
	if err != nil || !p.Alive() {
		return 0, 0
	}
	_, rest, _ := bytes.Cut(b, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	numbers := bytes.Fields(line)
	if len(numbers) == 0 {
		return 0, 0
	}
	if pid, err = strconv.Atoi(string(numbers[len(numbers)-1])); err != nil {
		return 0, 0
	}
	return pid, len(numbers) - 1
}
