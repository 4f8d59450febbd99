//go:build unix

package tui

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// TestSetAside runs this test again as a child whose standard error is a
// terminal, and has it write as a C library would.
func TestSetAside(t *testing.T) {
	if path := os.Getenv("TUI_TEST_ASIDE"); path != "" {
		restore, err := setAside(func() (string, error) { return path, nil })
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stderr, "noise from a library")
		if err := restore(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stderr, "words to the person")
		return
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	path := filepath.Join(t.TempDir(), "tui.log")
	child := exec.Command(os.Args[0], "-test.run=^TestSetAside$")
	child.Env = append(os.Environ(), "TUI_TEST_ASIDE="+path)
	child.Stderr = slave
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(master).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "words to the person" {
		t.Errorf("the terminal got %q, %v", line, err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(path)
	if err != nil || string(kept) != "noise from a library\n" {
		t.Errorf("the file got %q, %v", kept, err)
	}
}
