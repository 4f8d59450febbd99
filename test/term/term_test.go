//go:build linux

package term

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

func shell(t *testing.T, script string, o Options) *Session {
	t.Helper()
	o.Path, o.Args = "/bin/sh", []string{"-c", script}
	o.Env = append(o.Env, "PATH="+os.Getenv("PATH"))
	return Run(t, o)
}

func TestScreen(t *testing.T) {
	s := shell(t, `printf '\033[>1u\033[1;31mred\033[0m 証明書|\n'; printf '%s' "$(stty size)"`,
		Options{Columns: 30, Rows: 5})
	if code := s.Exit(); code != 0 {
		t.Fatal("exit code", code)
	}
	if got, want := s.Screen(), "red 証明書|\n5 30"; got != want {
		t.Errorf("screen %q, want %q", got, want)
	}
	row := s.Frame().Cells[0]
	if !row[0].Bold || row[0].Foreground == nil || row[3].Bold {
		t.Errorf("style of the first cells: %+v, %+v", row[0], row[3])
	}
	if row[4].Width != 2 || row[5].Width != 0 || row[10].Text != "|" {
		t.Errorf("wide cells: %+v", row[4:11])
	}
}

func TestSecrets(t *testing.T) {
	const secret = "271828"
	quiet := shell(t, `stty -echo; printf 'PIN: '; read pin; stty echo; echo; echo got ${#pin}`, Options{})
	quiet.WaitFor("PIN:")
	if quiet.Cooked() {
		t.Error("echo is off, but the terminal is called cooked")
	}
	quiet.Answer("PIN:", secret)
	quiet.WaitFor("got 6")
	quiet.Exit()
	if !quiet.Cooked() {
		t.Error("the terminal was restored, but is not called cooked")
	}
	if shown := quiet.Shown(); len(shown) != 0 {
		t.Errorf("shown: %q", shown)
	}
	for name, script := range map[string]string{
		"echoed":            `printf 'PIN: '; read pin`,
		"echoed and erased": `printf 'PIN: '; read pin; printf '\033[2J'`,
		"in pieces":         `stty -echo; printf 'PIN: '; read pin; printf '271\033[0m828'; printf '\033[2J'; echo done`,
	} {
		t.Run(name, func(t *testing.T) {
			// Not a Session: its end would fail this test, as it should.
			s, err := Start(Options{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}})
			must.OK(t, err)
			defer s.Close()
			must.OK(t, s.Wait(t.Context(), func(f Frame) bool { return f.Contains("PIN:") }))
			must.OK(t, s.TypeSecret(secret+"\r"))
			must.OK(t, s.TypeSecret(secret))
			if _, err := s.ExitCode(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(s.Shown()) == 0 {
				t.Errorf("an echoed secret was not noticed in %q", s.Raw())
			}
		})
	}
}
