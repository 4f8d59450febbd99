// Packaging writes what packages carry beside the program, from the program
// itself: manual pages, shell completions, the agent's unit file, the licences of
// what it is made of. Run it as
// `go run ./test/packaging DIR`.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/assets"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: packaging DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// write makes man/*.1.gz, completions/*, the unit file and THIRD-PARTY below dir, anew.
func write(dir string) error {
	program := &cli.Program{Args: []string{"kubehsm"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: ui.Version(),
		Getenv:  func(string) string { return "" }}
	root := program.Command()
	root.InitDefaultCompletionCmd()
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(man, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	prune(root)
	if err := manual(root, ui.Version(), man); err != nil {
		return err
	}
	if err := compress(man); err != nil {
		return err
	}
	unit, err := assets.Systemd(assets.Service{Executable: "/usr/bin/kubehsm"})
	if err != nil {
		return err
	}
	others, err := licences()
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "THIRD-PARTY"), others, 0o644),
		os.WriteFile(filepath.Join(dir, assets.SystemdName), unit, 0o644),
		root.GenBashCompletionFileV2(filepath.Join(completions, "kubehsm.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_kubehsm")),
		root.GenFishCompletionFile(filepath.Join(completions, "kubehsm.fish"), true),
		root.GenPowerShellCompletionFileWithDesc(filepath.Join(completions, "kubehsm.ps1")))
}

// prune leaves hidden commands out of the pages.
func prune(c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Hidden {
			c.RemoveCommand(sub)
			continue
		}
		prune(sub)
	}
}

// compress replaces every file of dir by its gzip, the same for the same file.
func compress(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(content); err != nil {
			return err
		}
		if err := errors.Join(z.Close(), os.WriteFile(path+".gz", b.Bytes(), 0o644), os.Remove(path)); err != nil {
			return err
		}
	}
	return nil
}
