package requests

import (
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// withContext is a command line for a kubeconfig context.
func withContext(words, kubeContext string) string {
	if kubeContext != "" {
		words += " --context " + shell.Quote(kubeContext)
	}
	return words
}

func (m *Model) commands(r row, ok bool) []string {
	flags := map[which]string{pending: " --pending --watch", all: " --watch", mine: " --mine"}
	lines := []string{withContext("kubehsm csr list"+flags[m.which], m.context)}
	if ok {
		lines = append(lines, withContext("kubehsm csr show "+shell.Quote(r.name), m.context))
	}
	return lines
}
