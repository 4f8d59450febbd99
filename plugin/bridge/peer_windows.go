package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// sameUser checks that the process at the client's end of a loopback connection is our
// user's. Of one with more rights than we have Windows does not tell; there, the loopback
// certificate remains the proof.
func sameUser(client, server netip.AddrPort) error {
	pid, err := processOf(client, server)
	if err != nil {
		return fmt.Errorf("%w: %w", errLook, err)
	}
	user, err := process.User(pid)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLook, err)
	}
	own, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return fmt.Errorf("the own user: %w", err)
	}
	if !user.Equals(own.User.Sid) {
		return fmt.Errorf("the connection is another user's (%s)", user)
	}
	return nil
}

// whoseSocket asks the system for the process that made the client's socket.
func whoseSocket(client, server netip.AddrPort, of Client, kin []Client) (owner Client, told bool, err error) {
	if !of.Known() {
		return Client{}, false, nil
	}
	pid, err := processOf(client, server)
	if err != nil {
		return Client{}, false, fmt.Errorf("%w: %w", errLook, err)
	}
	owner = process.Of(pid)
	switch {
	case !owner.Known(): // the process has ended, or Windows does not tell
		return owner, false, errors.New("this connection belongs to another process")
	case owner == of, slices.Contains(kin, owner), slices.Contains(slices.Collect(owner.Ancestors()), of):
		return owner, true, nil
	}
	return owner, false, fmt.Errorf("this connection belongs to process %d", owner.PID)
}

// getExtendedTCPTable is GetExtendedTcpTable of the IP Helper library.
var getExtendedTCPTable = windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetExtendedTcpTable")

// processOf returns the process that made the client's socket of a connection by IPv4. The
// system lists all connections, which takes a fraction of a millisecond.
func processOf(client, server netip.AddrPort) (pid int, err error) {
	const connections = 4 // TCP_TABLE_OWNER_PID_CONNECTIONS
	table := make([]byte, 1<<14)
	for range 5 { // the list may grow meanwhile
		size := uint32(len(table))
		r, _, _ := getExtendedTCPTable.Call(uintptr(unsafe.Pointer(&table[0])), uintptr(unsafe.Pointer(&size)), 0,
			windows.AF_INET, connections, 0)
		switch err := windows.Errno(r); err {
		case windows.ERROR_SUCCESS:
			return parseTable(table, client, server)
		case windows.ERROR_INSUFFICIENT_BUFFER:
			table = make([]byte, size+size/4)
		default:
			return 0, os.NewSyscallError("GetExtendedTcpTable", err)
		}
	}
	return 0, os.NewSyscallError("GetExtendedTcpTable", windows.ERROR_INSUFFICIENT_BUFFER)
}

// parseTable finds a connection in a MIB_TCPTABLE_OWNER_PID: a count, then rows of state, local
// address and port, remote address and port, process.
func parseTable(table []byte, client, server netip.AddrPort) (pid int, err error) {
	const header, row = 4, 24
	for i := range int(binary.NativeEndian.Uint32(table)) {
		r := table[header+i*row:]
		if len(r) < row {
			break
		}
		if endAt(r[4:]) == unmapped(client) && endAt(r[12:]) == unmapped(server) {
			return int(binary.NativeEndian.Uint32(r[20:])), nil
		}
	}
	return 0, errors.New("no process has this connection")
}

// endAt is an address and a port, both in the network's order.
func endAt(b []byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), binary.BigEndian.Uint16(b[4:]))
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
