// Package clipboard puts text onto the desktop's own clipboard, for terminals
// that do not understand OSC 52. Programs are looked up when text is copied,
// never before: a start must not pay for it.
package clipboard

import (
	"context"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// patience bounds how long a clipboard program may take.
const patience = 2 * time.Second

// programs are the commands that take text on standard input, by what has to be
// in the environment for them to make sense.
func programs(getenv func(string) string) [][]string {
	switch {
	case getenv("SSH_CONNECTION") != "" || getenv("SSH_TTY") != "":
		return nil // the clipboard of this machine is not the person's
	case runtime.GOOS == "darwin":
		return [][]string{{"pbcopy"}}
	case runtime.GOOS == "windows" || getenv("WSL_DISTRO_NAME") != "":
		return [][]string{{"clip.exe"}}
	case getenv("WAYLAND_DISPLAY") != "":
		return [][]string{{"wl-copy", "--type", "text/plain"}}
	case getenv("DISPLAY") != "":
		return [][]string{{"xclip", "-selection", "clipboard"}, {"xsel", "--clipboard", "--input"}}
	}
	return nil
}

// Write copies text with the first program that is there. Without one it does
// nothing: the terminal was told by OSC 52 too. It is not for secrets.
func Write(ctx context.Context, getenv func(string) string, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, p := range programs(getenv) {
		path, err := exec.LookPath(p[0])
		if err != nil {
			continue
		}
		c := exec.CommandContext(ctx, path, p[1:]...)
		c.Stdin = strings.NewReader(text)
		c.WaitDelay = patience // xclip stays behind to serve the selection
		return c.Run()
	}
	return nil
}
