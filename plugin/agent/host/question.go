package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// fieldsOf are the lines of the question q about s, with an account of the body. They say what
// is signed, as far as the token signs it, and who started the program. Each value is made of
// words of ours, and of names that are quoted ([consent.Name]). What a person must know comes
// first, as a small window shows the first fields; minor fields give way to it.
func fieldsOf(s consent.Statement, q bridge.Question, account []string, host string) []hsm.Field {
	fields := []hsm.Field{{Label: "Request", Values: []string{s.Request.What()}}}
	list := func(label string, values ...string) {
		if len(values) > 0 {
			fields = append(fields, hsm.Field{Label: label, Values: values})
		}
	}
	add := func(label, value string) {
		if value != "" {
			list(label, value)
		}
	}
	minor := func(label, value string) {
		if add(label, value); value != "" {
			fields[len(fields)-1].Minor = true
		}
	}
	if s.Request.Name != "" {
		add("Name", consent.Quote(s.Request.Name))
	}
	add("Namespace", s.Request.Where())
	if s.Request.Resource != "" && s.Request.Path != "" {
		add("Path", consent.Quote(s.Request.Path))
	}
	list("As", q.As...) // separate values: joined, one group could hide another
	list("Does", slices.Concat(q.Stream, account)...)
	add("Program", s.Program.String())
	add("Cluster", consent.Name(s.Enrollment)+" at "+hostWords(host))
	if s.Body != nil {
		minor("Body", s.Body.String())
	}
	if !s.Program.Named(s.Command) {
		minor("Calls itself", s.Command)
	}
	minor("Process", processWords(q.Client))
	add("A yes", consents.Reach(s.Request))
	return fields
}

// hostWords are an API server's host and port, quoted unless they are plain.
func hostWords(host string) string {
	if bare := strings.NewReplacer(":", "", "[", "", "]", "").Replace(host); bare != "" && consent.Word(bare) == bare {
		return host
	}
	return consent.Quote(host)
}

// processWords name a process and who started it.
func processWords(p process.ID) string {
	words := fmt.Sprint(p.PID)
	if p.PID == 0 {
		words = "unknown"
	}
	for parent := range p.Ancestors() {
		if by := consent.ProgramOf(parent.PID); by.Path != "" {
			words += fmt.Sprintf(", started by %s (%d)", by, parent.PID)
		} else {
			words += fmt.Sprintf(", started by process %d, whose program is unknown", parent.PID)
		}
		break
	}
	return words
}
