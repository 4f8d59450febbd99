package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Sizes of the structures in linux/netlink.h and linux/inet_diag.h.
const (
	sizeNlmsghdr      = 16
	sizeInetDiagReqV2 = 56
	offsetUID         = sizeNlmsghdr + 64 // idiag_uid in inet_diag_msg
	offsetInode       = offsetUID + 4     // idiag_inode
	sockDiagByFamily  = 20                // SOCK_DIAG_BY_FAMILY
	allStates         = ^uint32(0)
)

// sameUser checks that the socket at the client's end of a loopback connection
// belongs to our user. It asks the kernel for that one socket (sock_diag(7)),
// which costs microseconds where a read of /proc/net/tcp grows with the system.
func sameUser(client, server netip.AddrPort) error {
	uid, _, err := socketOf(client, server)
	if err != nil {
		return fmt.Errorf("%w: %w", errLook, err)
	}
	if int(uid) != os.Geteuid() {
		return fmt.Errorf("the connection is another user's (user id %d)", uid)
	}
	return nil
}

// socketOf returns the user and the inode of the client's socket.
func socketOf(client, server netip.AddrPort) (uid, inode uint32, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(client, server), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, 0, os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 1024)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, 0, os.NewSyscallError("recvfrom", err)
	}
	return parseDiag(answer[:n])
}

// diagRequest is a nlmsghdr and an inet_diag_req_v2 for exactly one socket.
func diagRequest(client, server netip.AddrPort) []byte {
	src, dst := client.Addr().Unmap(), server.Addr().Unmap()
	family := byte(unix.AF_INET6)
	if src.Is4() {
		family = unix.AF_INET
	}
	b := make([]byte, 0, sizeNlmsghdr+sizeInetDiagReqV2)
	b = binary.NativeEndian.AppendUint32(b, sizeNlmsghdr+sizeInetDiagReqV2)
	b = binary.NativeEndian.AppendUint16(b, sockDiagByFamily)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence number, port
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, allStates)
	b = binary.BigEndian.AppendUint16(b, client.Port())
	b = binary.BigEndian.AppendUint16(b, server.Port())
	b = append(b, pad16(src.AsSlice())...)
	b = append(b, pad16(dst.AsSlice())...)
	b = append(b, 0, 0, 0, 0)                                        // any interface
	return append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // INET_DIAG_NOCOOKIE
}

func pad16(b []byte) []byte { return append(b, make([]byte, 16-len(b))...) }

func parseDiag(b []byte) (uid, inode uint32, err error) {
	if len(b) < sizeNlmsghdr+4 {
		return 0, 0, errors.New("short netlink answer")
	}
	switch t := binary.NativeEndian.Uint16(b[4:]); {
	case t == unix.NLMSG_ERROR:
		return 0, 0, unix.Errno(-int32(binary.NativeEndian.Uint32(b[sizeNlmsghdr:])))
	case t != sockDiagByFamily || len(b) < offsetInode+4:
		return 0, 0, fmt.Errorf("unexpected netlink answer of type %d, %d bytes", t, len(b))
	}
	return binary.NativeEndian.Uint32(b[offsetUID:]), binary.NativeEndian.Uint32(b[offsetInode:]), nil
}
