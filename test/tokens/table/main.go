// Command table writes docs/tokens.md from the files below test/tokens.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubehsm/kubehsm/test/tokens"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func write() error {
	root, err := tokens.Root()
	if err != nil {
		return err
	}
	text, err := tokens.Document(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "tokens.md"), []byte(text), 0o644)
}
