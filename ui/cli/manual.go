package cli

import "github.com/spf13/cobra"

// Command is the whole tree of commands, for what describes them: manual pages
// and completions. It is not to be run.
func (p *Program) Command() *cobra.Command {
	a := &app{Program: p, pinFD: -1}
	return a.root("")
}
