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

// commandWords takes the words before the first flag or assignment from /proc's form of a
// command line. What follows may be a secret, and nothing says which flags take a value.
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
	for _, arg := range args[1:] {
		if len(words) == parentWords || strings.HasPrefix(arg, "-") || strings.Contains(arg, "=") {
			break
		}
		words = append(words, arg)
	}
	return words
}
