package assets

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

func TestSystemd(t *testing.T) {
	b, err := Systemd(Service{Executable: "/usr/bin/kubehsm"})
	must.OK(t, err)
	for _, line := range []string{`ExecStart="/usr/bin/kubehsm" agent serve --supervised`, "Restart=on-failure",
		"WantedBy=default.target",
		"NoNewPrivileges=yes", "RestrictNamespaces=yes", "SystemCallFilter=@system-service"} {
		if !strings.Contains(string(b), "\n"+line+"\n") {
			t.Errorf("no %q in\n%s", line, b)
		}
	}
	if bytes.Contains(b, []byte("Environment")) {
		t.Errorf("%s", b)
	}
}

// Paths are the user's: nothing in one may become an option, a variable or a line.
func TestQuoting(t *testing.T) {
	s := Service{Executable: `/a "b" 100%i $HOME\x`, Home: `/h "q" %u $X & <k>`}
	for _, program := range []string{s.Executable, `/a"`, `/a'`, `/a\`} {
		if b, err := Systemd(Service{Executable: program}); err == nil {
			t.Errorf("systemd would refuse %s", b)
		}
	}
	b, err := Systemd(Service{Executable: "/a b 100%i $HOME", Home: s.Home})
	must.OK(t, err)
	for _, line := range []string{`ExecStart="/a b 100%%i $HOME" agent serve --supervised`,
		`Environment="KUBEHSM_HOME=/h \"q\" %%u $X & <k>"`} {
		if !strings.Contains(string(b), "\n"+line+"\n") {
			t.Errorf("no %s in\n%s", line, b)
		}
	}
	b, err = Launchd(s)
	must.OK(t, err)
	if got := strings.Join(stringsOf(t, b), "|"); !strings.Contains(got, s.Executable+"|agent|serve|--supervised|") ||
		!strings.Contains(got, s.Home) {
		t.Errorf("%s", got)
	}
	for _, bad := range []Service{{}, {Executable: "kubehsm"}, {Executable: "/a\nExecStartPre=/bin/sh"},
		{Executable: "/a", Home: "h"}, {Executable: "/a", Home: "/h\n"}, {Executable: "/a\xff"},
		{Executable: "/a", Home: "/h\uffff"}} {
		for _, f := range []func(Service) ([]byte, error){Systemd, Launchd} {
			if b, err := f(bad); err == nil {
				t.Errorf("%+v: %s", bad, b)
			}
		}
	}
}

// stringsOf reads the <string> elements, which also shows that the XML is whole.
func stringsOf(t *testing.T, b []byte) (all []string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		must.OK(t, err)
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "string" {
			var s string
			must.OK(t, d.DecodeElement(&s, &e))
			all = append(all, s)
		}
	}
}

func TestSystemdVerifies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is Linux's")
	}
	analyze := need.Program(t, "systemd-analyze")
	exe, err := os.Executable()
	must.OK(t, err)
	link := filepath.Join(t.TempDir(), "a 100%i $HOME ${USER} & <k>*")
	must.OK(t, os.Symlink(exe, link))
	b, err := Systemd(Service{Executable: link, Home: t.TempDir()})
	must.OK(t, err)
	verify := func(unit []byte) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), SystemdName)
		must.OK(t, os.WriteFile(path, unit, 0o600))
		cmd := exec.Command(analyze, "verify", "--user", "--man=no", path)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil && len(out) == 0 {
			t.Fatal(err)
		}
		return string(out)
	}
	bad := verify(bytes.Replace(b, []byte("LimitCORE=0"), []byte("LimitCOAR=0"), 1))
	if !strings.Contains(bad, "LimitCOAR") {
		t.Fatalf("it does not find a misspelt setting: %q", bad)
	}
	for line := range strings.Lines(verify(b)) {
		if strings.Contains(line, SystemdName) {
			t.Error(line)
		}
	}
}
