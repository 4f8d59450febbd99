//go:build linux && cgo

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

// change is a piece of a source file and what takes its place.
type change struct{ file, old, new string }

// points are put into Go's own library, so that no change of the product can pass
// by them: whatever a process does to a file, says to another process or to a
// server, the rig hears of it. Files are named from the library's folder.
var points = []change{
	{"os/file.go", "	n, e := f.write(b)\n	if n < 0 {", "	n, e := f.faultWrite(b)\n	if n < 0 {"},
	{"os/file.go", `	f.appendMode = flag&O_APPEND != 0
`, `	f.appendMode = flag&O_APPEND != 0
	if flag&O_CREATE != 0 {
		faultAt("open", name)
	}
`},
	{"os/file.go", `	return rename(oldpath, newpath)
`, `	faultAt("going to rename to", newpath)
	err := rename(oldpath, newpath)
	faultAt("renamed to", newpath)
	return err
`},
	{"os/file_unix.go", `		return syscall.Unlink(name)
	})
	if e == nil {
`, `		return syscall.Unlink(name)
	})
	if e == nil {
		faultAt("removed", name)
`},
	{"os/file_unix.go", `		return &LinkError{"link", oldname, newname, e}
	}
`, `		return &LinkError{"link", oldname, newname, e}
	}
	faultAt("linked", newname)
`},
	{"os/exec_posix.go", `	pid, h, e := syscall.StartProcess(name, argv, sysattr)
`, `	pid, h, e := syscall.StartProcess(name, argv, sysattr)
	if len(argv) > 1 {
		FaultPoint("started " + argv[1])
	}
`},
	{"net/net.go", `	n, err := c.fd.Write(b)
`, `	os.FaultConn(c.fd.net)
	n, err := c.fd.Write(b)
`},
	{"net/http/roundtrip.go", `	return t.roundTrip(req)
`, `	os.FaultPoint("asks " + req.Method + " " + req.URL.Path)
	resp, err := t.roundTrip(req)
	os.FaultPoint("answered " + req.Method + " " + req.URL.Path)
	return resp, err
`},
	{"net/http/roundtrip.go", `import _ "unsafe"`, `import "os"
import _ "unsafe"`},
	{"time/time.go", `	sec, nsec, mono := runtimeNow()
	if mono == 0 {
		return Time{uint64(nsec), sec + unixToInternal, Local}
`, `	sec, nsec, mono := runtimeNow()
	sec += faultSeconds()
	if mono == 0 {
		return Time{uint64(nsec), sec + unixToInternal, Local}
`},
}

// tokenCalls are the calls of a PKCS#11 library that change what is on a token.
var tokenCalls = regexp.MustCompile(`(\w+(?:\.\w+)*\.ctx)\.` +
	`(CreateObject|DestroyObject|SetAttributeValue|GenerateKeyPair)\(`)

// build builds the program with points, a wall clock of its own, and the defects,
// whose files are named from the checkout's folder, into dir.
func build(ctx context.Context, dir string, defects ...change) (string, error) {
	root, err := controlplane.Checkout()
	if err != nil {
		return "", err
	}
	std, err := goCommand(ctx, root, "env", "GOROOT")
	if err != nil {
		return "", err
	}
	o := overlay{dir: dir, texts: map[string]string{}}
	std = filepath.Join(std, "src")
	for _, c := range points {
		if err := o.change(std, c); err != nil {
			return "", err
		}
	}
	driver, err := filepath.Glob(filepath.Join(root, "hsm", "pkcs11", "*.go"))
	if err != nil {
		return "", err
	}
	for _, file := range driver {
		text, err := o.text(file)
		if err != nil {
			return "", err
		}
		if !strings.HasSuffix(file, "_test.go") && tokenCalls.MatchString(text) {
			o.texts[file] = tokenCalls.ReplaceAllString(text, `faultToken($1, "$2").$2(`)
		}
	}
	for _, c := range defects {
		if err := o.change(root, c); err != nil {
			return "", err
		}
	}
	for name, folder := range map[string]string{"os": filepath.Join(std, "os"), "time": filepath.Join(std, "time"),
		"pkcs11": filepath.Join(root, "hsm", "pkcs11")} {
		b, err := os.ReadFile(filepath.Join(root, "test", "faults", "testdata", name+".go"))
		if err != nil {
			return "", err
		}
		o.texts[filepath.Join(folder, "faults_linux.go")] = string(b)
	}
	file, err := o.write()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "kubehsm")
	_, err = goCommand(ctx, root, "build", "-buildvcs=false", "-trimpath", "-overlay", file,
		"-o", out, ".")
	return out, err
}

func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// overlay are source files with other texts than those on the disk.
type overlay struct {
	dir   string
	texts map[string]string
}

func (o *overlay) text(file string) (string, error) {
	if text, changed := o.texts[file]; changed {
		return text, nil
	}
	b, err := os.ReadFile(file)
	return string(b), err
}

// change makes one change of a file below root. The old text must be there once.
func (o *overlay) change(root string, c change) error {
	file := filepath.Join(root, c.file)
	text, err := o.text(file)
	if err != nil {
		return err
	}
	if n := strings.Count(text, c.old); n != 1 {
		return fmt.Errorf("%s has changed: %d times the text %q", c.file, n, c.old)
	}
	o.texts[file] = strings.Replace(text, c.old, c.new, 1)
	return nil
}

// write writes the texts, and the file that the go command reads.
func (o *overlay) write() (string, error) {
	replace := map[string]string{}
	for file, text := range o.texts {
		changed := filepath.Join(o.dir, strings.ReplaceAll(strings.TrimPrefix(file, "/"), "/", "_"))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[file] = changed
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(o.dir, "overlay.json")
	return file, os.WriteFile(file, b, 0o600)
}
