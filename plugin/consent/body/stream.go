package body

import (
	"net/url"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// Stream is what a request that connects asks for in its target, the path and query that
// [consent.Parse] takes: the container of exec and attach, and the command, also that of a
// kubelet behind nodes/proxy. It is nil for others.
func Stream(r consent.Request, target string) []string {
	kubelet := r.Resource == "nodes" && r.Subresource == "proxy"
	if r.Subresource != "exec" && r.Subresource != "attach" && !kubelet {
		return nil
	}
	_, raw, _ := strings.Cut(target, "?")
	query, err := url.ParseQuery(raw)
	if err != nil {
		return []string{Unread("the query is malformed")}
	}
	var lines []string
	run := query["command"]
	if kubelet {
		run = append(run, query["cmd"]...) // /run/
	}
	if len(run) > 0 {
		lines = append(lines, "runs "+consent.Quote(strings.Join(run, " ")))
	}
	if c := query["container"]; len(c) > 0 { // the first one counts
		lines = append(lines, "in container "+name(c[0]))
	}
	return lines
}
