package cli

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) version() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use: "version", Short: "Print the version",
		Example: "kubehsm version\nkubehsm version -o json",
		Args:    cobra.NoArgs,
	}, func(*cobra.Command, []string) error {
		doc := struct {
			Version  string `json:"version"`
			Go       string `json:"go"`
			Platform string `json:"platform"`
		}{a.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
		return a.emit(o, doc, func(w *words) { w.line("kubehsm %s (%s, %s)", doc.Version, doc.Go, doc.Platform) })
	})
	o = output(c)
	return c
}
