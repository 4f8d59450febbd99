package bridge

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/need"
)

// asleep is another process, which has files open.
func asleep(t *testing.T, files ...*os.File) (id Client, end func()) {
	t.Helper()
	c := exec.Command("sleep", "600")
	c.ExtraFiles = files
	check(t, c.Start())
	end = func() { _ = c.Process.Kill(); _ = c.Wait() }
	t.Cleanup(end)
	return process.Of(c.Process.Pid), end
}

// TestWhoseSocket: a connection is that of the process that holds it, and where a
// child has inherited it, the client's whose session it is.
func TestWhoseSocket(t *testing.T) {
	c, client, server := connected(t)
	file, err := c.(*net.TCPConn).File()
	check(t, err)
	defer file.Close()
	me, parent := process.This(), process.Parent()
	other, _ := asleep(t)
	heir, endHeir := asleep(t, file)
	gone, end := asleep(t)
	end()
	for _, o := range []struct {
		name  string
		of    Client
		kin   []Client
		owner Client
		told  bool
		fails bool
	}{
		{"its own", me, nil, me, true, false},
		{"a child that inherited it", heir, nil, heir, true, false},
		{"its parent's session", parent, nil, me, true, false},
		{"the session of one that it started the plugin by", gone, []Client{me, parent}, me, true, false},
		{"another's", other, nil, Client{}, false, true},
		{"another's, started by the same", other, []Client{parent}, Client{}, false, true},
		{"one that has ended", gone, nil, Client{}, false, true},
		{"another process of the number", Client{PID: me.PID, Start: me.Start + 1}, nil, Client{}, false, true},
		{"not known", Client{}, nil, Client{}, false, true},
	} {
		owner, told, err := whoseSocket(client, server, o.of, o.kin)
		if o.fails {
			o.owner = owner
			if owner != me && owner != heir {
				t.Errorf("%s: process %d is said to hold it", o.name, owner.PID)
			}
		}
		if owner != o.owner && !(o.name == "its parent's session" && owner == heir) || told != o.told ||
			(err != nil) != o.fails {
			t.Errorf("%s: %v, %v, %v", o.name, owner, told, err)
		}
	}
	endHeir()
	check(t, file.Close())
	check(t, c.Close())
	if _, told, err := whoseSocket(client, server, me, nil); told || err == nil {
		t.Error("a closed connection is somebody's")
	}
}

// connected is a connection, and its ends.
func connected(t *testing.T) (c net.Conn, client, server netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	c, err = net.Dial("tcp4", l.Addr().String())
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(l.Addr().String())
}

// TestHidden: a program whose descriptors cannot be seen is not believed to hold a connection, unless
// another one that may hold it is seen to.
func TestHidden(t *testing.T) {
	if its := strings.Fields(os.Getenv("KUBEHSM_TEST_HIDDEN")); len(its) > 0 {
		_, client, server := connected(t)
		me, parent := process.This(), process.Parent()
		if owner, told, err := whoseSocket(client, server, parent, nil); owner != me || !told || err != nil {
			t.Errorf("that of a child: %v, %v, %v", owner, told, err)
		}
		client, server = netip.MustParseAddrPort(its[0]), netip.MustParseAddrPort(its[1])
		if owner, told, err := whoseSocket(client, server, parent, nil); owner.Known() || told || !errors.Is(err, errHidden) {
			t.Errorf("the parent's descriptors are seen: %v, %v, %v", owner, told, err)
		}
		return
	}
	if os.Geteuid() != 0 {
		need.Missing(t, "only root can start a program that sees less")
	}
	_, client, server := connected(t)
	exe, err := os.Executable()
	check(t, err)
	check(t, os.Chmod(exe, 0o755))
	for name, hide := range map[string]func(*exec.Cmd) *exec.Cmd{"another user": asNobody,
		"another user namespace": inUserNamespace} {
		t.Run(name, func(t *testing.T) {
			c := hide(exec.Command("/proc/self/fd/3", "-test.run=^TestHidden$"))
			file, err := os.Open(exe)
			check(t, err)
			defer file.Close()
			c.ExtraFiles = []*os.File{file}
			c.Env = append(os.Environ(), "KUBEHSM_TEST_HIDDEN="+client.String()+" "+server.String(), "CI=true")
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// inUserNamespace has c run as the same user in a user namespace of its own.
func inUserNamespace(c *exec.Cmd) *exec.Cmd {
	only := []syscall.SysProcIDMap{{Size: 1}}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: only, GidMappings: only}
	return c
}

// TestAnotherProcess: a certificate is refused on the connection of another process,
// which is told and on record; whose a connection is, is asked once.
func TestAnotherProcess(t *testing.T) {
	var asks atomic.Int32
	denied := make(chan Denial, 16)
	r := newRig(t, rigOptions{denied: func(d Denial) { denied <- d },
		whose: func(client, server netip.AddrPort, of Client, kin []Client) (Client, bool, error) {
			asks.Add(1)
			return whoseSocket(client, server, of, kin)
		}})
	me := process.This()
	other, end := asleep(t)
	mine := r.client(r.issue("prod", me))
	theirs := r.client(r.issue("prod", other))
	for range 3 {
		if code, body := r.get(mine, "/version"); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		code, body := r.get(theirs, "/api/v1/pods")
		if code != http.StatusUnauthorized {
			t.Fatalf("%d %s", code, body)
		}
		refused(t, body, http.StatusUnauthorized, "each program has to run `kubehsm credential` itself")
		if d := <-denied; d.Reason != DeniedProcess || d.Client != me || d.Enrollment != "prod" {
			t.Errorf("%+v", d)
		}
	}
	if n := asks.Load(); n != 2 {
		t.Errorf("of two connections, it was asked %d times whose they are", n)
	}
	// "sh -c" started the plugin, and has ended: it was for who started that.
	shell, endShell := asleep(t)
	cred, err := r.sessions.Issue("prod", shell, []Client{me})
	check(t, err)
	endShell()
	c := r.client(&cred)
	if code, body := r.get(c, "/version"); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	r.clock.advance(SessionLife + sessionGrace + leftFor)
	if code, body := r.get(c, "/version"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	// Who has started a client gets nothing by that once the client has connected.
	child, _ := asleep(t)
	cred, err = r.sessions.Issue("prod", child, []Client{me})
	check(t, err)
	r.sessions.byOwner[owner{"prod", child}].met.Store(true)
	if code, body := r.get(r.client(&cred), "/version"); code != http.StatusUnauthorized {
		t.Errorf("%d %s", code, body)
	}
	end()
	code, body := r.get(theirs, "/api/v1/pods")
	refused(t, body, http.StatusUnauthorized, "has ended")
	if code != http.StatusUnauthorized {
		t.Error(code)
	}
}

// TestLookFails: that nothing can be looked up now, as without a free descriptor, is no attack, and the
// next request has it looked up again.
func TestLookFails(t *testing.T) {
	var limit unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	free := true
	denied := make(chan Denial, 1)
	r := newRig(t, rigOptions{denied: func(d Denial) { denied <- d },
		whose: func(client, server netip.AddrPort, of Client, kin []Client) (Client, bool, error) {
			none := limit
			if !free {
				none.Cur = 0
			}
			check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
			owner, told, err := whoseSocket(client, server, of, kin)
			check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
			return owner, told, err
		}})
	c := r.client(r.issue("prod", process.This()))
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		free = want == http.StatusOK
		if code, body := r.get(c, "/version"); code != want {
			t.Errorf("%d %s, want %d", code, body, want)
		}
	}
	if len(denied) > 0 {
		t.Errorf("on record is %+v", <-denied)
	}
}

// TestHiddenIsRefused: with words, and on record.
func TestHiddenIsRefused(t *testing.T) {
	denied := make(chan Denial, 1)
	r := newRig(t, rigOptions{denied: func(d Denial) { denied <- d },
		whose: func(netip.AddrPort, netip.AddrPort, Client, []Client) (Client, bool, error) {
			return Client{}, false, errHidden
		}})
	code, body := r.get(r.client(r.issue("prod", process.This())), "/version")
	refused(t, body, http.StatusForbidden, "different user namespaces")
	if d := <-denied; code != http.StatusForbidden || d.Reason != DeniedHidden || d.Client != process.This() {
		t.Errorf("%d, %+v", code, d)
	}
}
