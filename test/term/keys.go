//go:build linux

package term

// Key is what a key sends, as xterm encodes it.
type Key string

// The keys that programs here listen to.
const (
	Enter   Key = "\r"
	Escape  Key = "\x1b"
	Tab     Key = "\t"
	BackTab Key = "\x1b[Z"
	Up      Key = "\x1b[A"
	Down    Key = "\x1b[B"
	CtrlC   Key = "\x03"
	CtrlD   Key = "\x04"
	CtrlU   Key = "\x15"
	CtrlZ   Key = "\x1a"
)
