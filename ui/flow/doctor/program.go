package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/settings"
)

// program looks at this program, its folders and its configuration.
func program(_ context.Context, o *Options) []Check {
	self := Check{ID: "program", Group: GroupProgram, Title: "This program"}.
		ok(fmt.Sprintf("kubehsm %s, %s/%s, %s", o.Env.Version, runtime.GOOS, runtime.GOARCH, o.Env.Executable))
	if info, err := os.Stat(o.Env.Executable); err == nil && info.Mode().Perm()&0o022 != 0 && runtime.GOOS != "windows" {
		self = self.with(Warning, self.Found+" may be changed by other users",
			"kubectl runs this file: whoever changes it can get your PIN.",
			"chmod go-w "+shell.Quote(o.Env.Executable))
	}
	return []Check{self, folders(o.Env.Dirs), configuration(o.Env.Dirs)}
}

// folders checks what kubehsm keeps things in, without making anything.
func folders(d home.Dirs) Check {
	c := Check{ID: "folders", Group: GroupProgram, Title: "Folders"}
	if err := d.Check(); err != nil {
		return c.with(Failed, err.Error(), "kubehsm uses nothing that somebody else could change.",
			fixOr(err, "make it yours alone: chmod go-w, chown"))
	}
	return c.ok(filepath.Clean(d.State))
}

func configuration(d home.Dirs) Check {
	c := Check{ID: "configuration", Group: GroupProgram, Title: "Configuration"}
	if _, err := os.Stat(d.ConfigFile()); errors.Is(err, fs.ErrNotExist) {
		return c.ok("none, the defaults are in force")
	}
	config, err := settings.Load(d)
	if err != nil {
		return c.with(Failed, err.Error(), "Without it kubehsm does nothing: what it lists is trusted.",
			fixOr(err, "correct "+d.ConfigFile()))
	}
	for _, m := range config.Modules {
		if _, err := os.Stat(m.Path); err != nil {
			return c.with(Failed, err.Error(), "Its tokens cannot be reached.",
				"install the library, or take it out of "+d.ConfigFile())
		}
	}
	if p := config.Pinentry; p != "" {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm()&0o111 == 0 {
			return c.with(Warning, "the pinentry "+p+" cannot be run", "Programs without a terminal cannot ask for the PIN.",
				"install it, or correct "+d.ConfigFile())
		}
	}
	return c.ok(d.ConfigFile())
}

// fixOr is err's own hint, or what helps in general.
func fixOr(err error, general string) string {
	if h := hinting.Of(err); h != "" {
		return h
	}
	return general
}
