// Put into package os of the program under test by the go command's -overlay: at
// each of its points a process says to the rig what it has done, and goes on when
// the rig answers. Without a rig it goes on at once. The product has no such thing.

package os

import (
	"syscall"
)

// faultDir is the folder above the program's own: the rig's socket is there.
var faultDir = func() string {
	buf := make([]byte, 4096)
	n, err := syscall.Readlink("/proc/self/exe", buf)
	if err != nil {
		return ""
	}
	dir := string(buf[:n])
	for range 2 {
		for i := len(dir) - 1; ; i-- {
			if i <= 0 {
				return ""
			}
			if dir[i] == '/' {
				dir = dir[:i]
				break
			}
		}
	}
	return dir
}()

// FaultPoint tells the rig and waits for its answer.
func FaultPoint(what string) {
	if faultDir == "" || len(faultDir) > 90 {
		return
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	if syscall.Connect(fd, &syscall.SockaddrUnix{Name: faultDir + "/rig"}) != nil {
		return
	}
	line := ""
	for i, arg := range Args {
		if i > 0 {
			line += arg + " "
		}
	}
	if len(line) > 2000 {
		line = line[:2000]
	}
	if _, err := syscall.Write(fd, []byte(line+"\x00"+what)); err != nil {
		return
	}
	answer := make([]byte, 1)
	for {
		_, err := syscall.Read(fd, answer)
		if err != syscall.EINTR {
			return
		}
	}
}

// faultAt is a point where it is the lab's file that something was done to.
func faultAt(what, name string) {
	if len(name) > len(faultDir) && faultDir != "" && name[:len(faultDir)] == faultDir {
		name = name[len(faultDir)+1:]
		// What decides nothing: the log, and the locks that workers take for each operation.
		if name != "v/k/state/agent.log" && (len(name) < 14 || name[:14] != "v/k/run/locks/") {
			FaultPoint(what + " " + name)
		}
	}
}

// faultWrite writes in two halves with a point between them: a process may die, and
// the disk be full, after a part. What is appended to is shared with other
// processes, and is written in one go, with a point before it.
func (f *File) faultWrite(b []byte) (n int, err error) {
	if len(f.name) <= len(faultDir) || faultDir == "" || f.name[:len(faultDir)] != faultDir {
		return f.write(b)
	}
	if f.appendMode {
		faultAt("going to append to", f.name)
		return f.write(b)
	}
	half := len(b) / 2
	n, err = f.write(b[:half])
	if err != nil {
		return n, err
	}
	faultAt("wrote half of", f.name)
	m, err := f.write(b[half:])
	return n + max(m, 0), err
}

// FaultConn is a point at a connection between processes of one machine.
func FaultConn(net string) {
	if net == "unix" {
		FaultPoint("send")
	}
}
