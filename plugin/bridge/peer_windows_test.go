package bridge

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestProcessOf: a connection is its process's, and of nobody once it is closed.
func TestProcessOf(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	check(t, err)
	defer c.Close()
	client, server := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(l.Addr().String())
	if err := sameUser(client, server); err != nil {
		t.Error(err)
	}
	me := process.This()
	if owner, told, err := whoseSocket(client, server, me, nil); owner != me || !told || err != nil {
		t.Errorf("%+v, %t, %v", owner, told, err)
	}
	other := Client{PID: me.PID, Start: me.Start + 1}
	if _, told, err := whoseSocket(client, server, other, nil); told || err == nil {
		t.Errorf("another process's: %t, %v", told, err)
	}
	if _, told, err := whoseSocket(client, server, other, []Client{me}); !told || err != nil {
		t.Errorf("a process that started the client: %t, %v", told, err)
	}
	nowhere := netip.AddrPortFrom(server.Addr(), 1)
	if err := sameUser(nowhere, server); err == nil || !strings.Contains(err.Error(), "no process") {
		t.Errorf("no connection: %v", err)
	}
}
