package requests

import "github.com/kubehsm/kubehsm/ui/verb"

func line(kubeContext, words string, options ...verb.Option) string {
	return verb.Line(words, append(options, verb.Flag("context", kubeContext))...)
}

func (m *Model) commands(r row, ok bool) []string {
	flags := map[which]string{pending: " --pending --watch", all: " --watch", mine: " --mine"}
	lines := []string{line(m.context, "csr list"+flags[m.which])}
	if ok {
		lines = append(lines, line(m.context, "csr show", verb.Argument(r.name)))
	}
	return lines
}
