package hardware

import (
	"os"
	"strings"
)

// distribution is what a Linux system calls itself, "" elsewhere.
func distribution() string {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil { // no such file on other systems
		return ""
	}
	_, rest, _ := strings.Cut("\n"+string(b), "\nPRETTY_NAME=")
	name, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(name, `"`)
}
