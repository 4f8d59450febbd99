// Package caller tells of the program that started this one.
package caller

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// parentWords is how many words of the parent's command line are shown: "kubectl
// get pods" is enough to know it by.
const parentWords = 4

// maxCommand bounds what is told of a command line, in bytes: a word may be as
// long as the system lets an argument be, and what is sent to the agent not.
const maxCommand = 256

// Command is the program that waits for us, with its verb, for the
// prompt to name; "" where the system does not tell.
func Command() string { return CommandOf(os.Getppid()) }

// CommandOf is [Command] for another process.
func CommandOf(pid int) string {
	if pid <= 0 {
		return ""
	}
	b := commandLine(pid)
	if b == nil {
		return ""
	}
	return commandWords(b)
}

// commandWords takes the leading words from /proc's form of a command line.
// Flags and what follows them are left out: values may be secrets.
func commandWords(b []byte) string {
	words := strings.Join(leading(b), " ")
	if len(words) > maxCommand {
		words = strings.ToValidUTF8(words[:maxCommand], "")
	}
	return words
}

func leading(b []byte) []string {
	args := strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
	words := []string{filepath.Base(args[0])}
	for i := 1; i < len(args) && len(words) < parentWords; i++ {
		switch arg := args[i]; {
		case arg == "--":
			return words
		case !strings.HasPrefix(arg, "-"):
			words = append(words, arg)
		case !strings.Contains(arg, "="):
			i++ // perhaps its value
		}
	}
	return words
}
