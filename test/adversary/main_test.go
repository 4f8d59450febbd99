//go:build linux && cgo

package adversary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// suite is what all attacks share, made by TestMain.
var suite struct {
	dir string
	// binary is kubehsm, program the adversary, other the same one in another file.
	binary, program, other string
	cluster                *controlplane.Cluster
	// numbers, if not nil, has the kernel give the next process a certain number.
	numbers io.ReadWriter
}

// roleVar tells a process of this test what it is: "" is the first one, "init" the
// first process of a pid namespace, which keeps the rights that a namespace's owner
// has, and "user" the tests: a process without any rights, as an ordinary user's are.
const roleVar = "KUBEHSM_TEST_ADVERSARY_ROLE"

func TestMain(m *testing.M) { os.Exit(vcard.Main(apart{m})) }

// apart runs the tests in a pid namespace of their own, inside those of vcard.
type apart struct{ m *testing.M }

func (a apart) Run() int {
	switch os.Getenv(roleVar) {
	case "":
		cmd := self("init")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
			Pdeathsig: syscall.SIGKILL}
		runtime.LockOSThread() // the child dies with the thread that made it
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "a pid namespace:", err)
			return 1
		}
		_ = cmd.Wait() // the exit code tells all
		return cmd.ProcessState.ExitCode()
	case "init":
		code, err := first()
		if err != nil {
			fmt.Fprintln(os.Stderr, "the first process:", err)
			return 1
		}
		return code
	}
	c, err := net.FileConn(os.NewFile(3, "numbers"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	suite.numbers = c
	return built(a).Run()
}

func self(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	return cmd
}

// first is the namespace's first process: it starts the tests without rights, waits
// for every process that has lost its parent, and sets the number that the next
// process gets: what an adversary does by starting some thousands.
func first() (code int, err error) {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return 1, fmt.Errorf("mount /proc: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 1, err
	}
	tests := self("user")
	tests.ExtraFiles = []*os.File{os.NewFile(uintptr(pair[1]), "numbers")}
	runtime.LockOSThread() // the rights are this thread's, and the child inherits them
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return 1, err
		}
	}
	if err := tests.Start(); err != nil {
		return 1, err
	}
	go func() {
		number := make([]byte, 32)
		for {
			n, err := unix.Read(pair[0], number)
			if err != nil || n == 0 {
				return
			}
			said := "ok"
			if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", number[:n], 0); err != nil {
				said = err.Error()
			}
			if _, err := unix.Write(pair[0], []byte(said)); err != nil {
				return
			}
		}
	}()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1, err
		case pid == tests.Process.Pid && status.Exited():
			return status.ExitStatus(), nil
		case pid == tests.Process.Pid:
			return 1, fmt.Errorf("the tests ended by %s", status.Signal())
		}
	}
}

// nextNumber has the next process get the number pid, if nobody is quicker.
func nextNumber(pid int) error {
	if _, err := io.WriteString(suite.numbers, strconv.Itoa(pid-1)); err != nil {
		return err
	}
	b := make([]byte, 256)
	n, err := suite.numbers.Read(b)
	if err != nil {
		return err
	}
	if said := string(b[:n]); said != "ok" {
		return errors.New(said)
	}
	return nil
}

// built runs the tests with the programs built.
type built struct{ m *testing.M }

func (b built) Run() int {
	err := build()
	defer os.RemoveAll(suite.dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := b.m.Run()
	if suite.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := suite.cluster.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

func build() (err error) {
	if suite.dir, err = os.MkdirTemp("", "kubehsm-adversary-"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if suite.binary, err = lab.Build(ctx, suite.dir); err != nil {
		return err
	}
	root, err := controlplane.Checkout()
	if err != nil {
		return err
	}
	suite.program, err = lab.BuildPackage(ctx, suite.dir, "adversary", root, "./test/adversary/program")
	if err != nil {
		return err
	}
	b, err := os.ReadFile(suite.program)
	if err != nil {
		return err
	}
	suite.other = filepath.Join(suite.dir, "another")
	return os.WriteFile(suite.other, b, 0o700)
}
