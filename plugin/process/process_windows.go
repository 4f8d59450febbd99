package process

import (
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// open opens the process for questions that all of the user's programs may ask.
func open(pid int) (windows.Handle, error) {
	return windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
}

// look asks GetProcessTimes for the start, in intervals of 100 ns since 1601, and NtQueryInformationProcess for the
// parent. Of a process that has ended and whose number others still have open, both are 0.
func look(pid int) (start uint64, parent int, err error) {
	if pid <= 0 {
		return 0, 0, ErrEnded
	}
	h, err := open(pid)
	if err != nil {
		return 0, 0, ErrEnded
	}
	defer func() { _ = windows.CloseHandle(h) }()
	const stillActive = 259
	var code uint32
	if windows.GetExitCodeProcess(h, &code) != nil || code != stillActive {
		return 0, 0, ErrEnded
	}
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(h, &created, &exited, &kernel, &user) != nil {
		return 0, 0, ErrEnded
	}
	var info windows.PROCESS_BASIC_INFORMATION
	if windows.NtQueryInformationProcess(h, windows.ProcessBasicInformation, unsafe.Pointer(&info),
		uint32(unsafe.Sizeof(info)), nil) == nil {
		parent = int(info.InheritedFromUniqueProcessId)
	}
	return uint64(created.HighDateTime)<<32 | uint64(created.LowDateTime), parent, nil
}

// CheckUser: only processes of one user are asked about here.
func CheckUser(int) error { return nil }

// terminalOf: this system does not tell the console of another process.
func terminalOf(int) uint64 { return 0 }

func terminalName(uint64) string { return "" }

// Image is the path of the file that a process runs, "" where the system does not tell.
func Image(pid int) string {
	h, err := open(pid)
	if err != nil {
		return ""
	}
	defer func() { _ = windows.CloseHandle(h) }()
	path := make([]uint16, windows.MAX_LONG_PATH)
	n := uint32(len(path))
	if windows.QueryFullProcessImageName(h, 0, &path[0], &n) != nil {
		return ""
	}
	return windows.UTF16ToString(path[:n])
}

// Arguments is the command line of a process, its program first. Where the system does not
// tell there is only the name of the program, or nothing.
func Arguments(pid int) []string {
	h, err := open(pid)
	if err != nil {
		return nil
	}
	defer func() { _ = windows.CloseHandle(h) }()
	answer := make([]uint64, 9000) // a string's header and the string, which has up to 64 KiB
	err = windows.NtQueryInformationProcess(h, windows.ProcessCommandLineInformation, unsafe.Pointer(&answer[0]),
		uint32(8*len(answer)), nil)
	if err == nil {
		line := (*windows.NTUnicodeString)(unsafe.Pointer(&answer[0])).String()
		if args, err := windows.DecomposeCommandLine(line); err == nil && len(args) > 0 {
			return args
		}
	}
	if image := Image(pid); image != "" {
		return []string{filepath.Base(image)}
	}
	return nil
}

// User is the user that a process runs as; an error if the system does not tell.
func User(pid int) (*windows.SID, error) {
	h, err := open(pid)
	if err != nil {
		return nil, err
	}
	defer func() { _ = windows.CloseHandle(h) }()
	var token windows.Token
	if err := windows.OpenProcessToken(h, windows.TOKEN_QUERY, &token); err != nil {
		return nil, err
	}
	defer token.Close()
	user, err := token.GetTokenUser()
	if err != nil {
		return nil, err
	}
	return user.User.Sid, nil
}
