package doctor

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"time"
)

// pcscSocket is where pcscd listens (PCSCLITE_CSOCK_NAME overrides it).
const pcscSocket = "/run/pcscd/pcscd.comm"

// service looks at the smart card service itself: its own refusals come from
// the driver, in [problem].
func service() []Check {
	c := Check{ID: "pcscd", Group: GroupTokens, Title: "Smart card service (pcscd)"}
	path := os.Getenv("PCSCLITE_CSOCK_NAME")
	if path == "" {
		path = pcscSocket
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close() // nothing was said
		return []Check{c.ok("listens on " + path)}
	}
	why := "YubiKeys and smart cards are reached through it; tokens with a library of their own are not."
	if errors.Is(err, fs.ErrPermission) {
		return []Check{c.with(Failed, "this user may not use "+path, why,
			"see its permissions with `ls -l "+path+"`, and polkit's rules for org.debian.pcsc-lite")}
	}
	if _, err := exec.LookPath("/usr/sbin/pcscd"); err != nil {
		return []Check{c.with(Note, "not installed", why,
			"install it: `sudo apt install pcscd`, `sudo dnf install pcsc-lite`, `sudo pacman -S ccid`")}
	}
	return []Check{c.with(Warning, "installed, but not running", why, "sudo systemctl enable --now pcscd.socket")}
}
