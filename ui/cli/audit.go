package cli

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/present"
)

type auditOptions struct {
	since      time.Duration
	enrollment string
	follow     bool
	format     *format
}

func (a *app) audit() *cobra.Command {
	var o auditOptions
	c := a.command(&cobra.Command{
		Use:   "audit",
		Short: "Show the audit log of your keys",
		Long: `Shows the audit log of the agent: when tokens were unlocked and locked, each signature
and its reason, the programs that got a session, the requests that the bridge refused,
your answers to consent questions, and changes of consent policies. The log holds no
other requests, and no bodies, arguments or secrets.

An answer that the token signed is shown as signed if the signature matches the
record, else as WRONG SIGNATURE. The line also says if another key than that of the
enrollment made the signature, as before a renewal with a new key.

With -f and -o json the command prints one JSON document per line.`,
		Example: "kubehsm audit --since 1h\nkubehsm audit --enrollment prod-hsm -o json\nkubehsm audit -f",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		if o.since < 0 {
			return ui.Usagef("--since: %s is not in the past", o.since)
		}
		dirs, err := a.dirs()
		if err != nil {
			return err
		}
		f := audit.Filter{Enrollment: o.enrollment, Follow: o.follow}
		if o.since > 0 {
			f.Since = time.Now().Add(-o.since)
		}
		if o.follow {
			return a.auditFollow(c.Context(), o, session.Agent{Env: &env.Env{Dirs: dirs}}, f)
		}
		return a.auditOnce(c.Context(), o, session.Agent{Env: &env.Env{Dirs: dirs}}, f)
	})
	c.Flags().DurationVar(&o.since, "since", 0, "show only records younger than this `duration`, such as 1h")
	c.Flags().StringVar(&o.enrollment, "enrollment", "", "show only records of this `enrollment`")
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "wait for new records and show them")
	o.format = output(c)
	return c
}

func (a *app) auditOnce(ctx context.Context, o auditOptions, agent session.Agent, f audit.Filter) error {
	records := []audit.Record{}
	damaged, err := agent.Audit(ctx, f, func(r audit.Record) error {
		records = append(records, r)
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	doc := struct {
		Records []audit.Record `json:"records"`
		Damaged int            `json:"damaged,omitempty"`
	}{records, damaged}
	return a.emit(o.format, doc, func(w *words) {
		if len(records) == 0 {
			w.line("%s.", present.NoRecords)
		} else {
			rows := make([][]string, 0, len(records))
			signatures := agent.Signatures()
			for _, r := range records {
				rows = append(rows, auditRow(signatures, r))
			}
			w.table([]string{"TIME", "EVENT", "OUTCOME", "ENROLLMENT", "PROGRAM", "DETAIL"}, rows)
		}
		if damaged > 0 {
			w.line("%d lines could not be read.", damaged)
		}
	})
}

func (a *app) auditFollow(ctx context.Context, o auditOptions, agent session.Agent, f audit.Filter) error {
	signatures := agent.Signatures()
	_, err := agent.Audit(ctx, f, func(r audit.Record) error {
		var b []byte
		var err error
		switch o.format.value {
		case "json":
			b, err = json.Marshal(r)
			b = append(b, '\n')
		case "yaml":
			b, err = yaml.Marshal(r)
			b = append([]byte("---\n"), b...)
		default:
			w := a.out()
			w.line("%s", strings.Join(filled(auditRow(signatures, r)), "  "))
			return w.flush()
		}
		if err == nil {
			_, err = a.Stdout.Write(b)
		}
		return err
	})
	return err
}

func filled(cells []string) []string {
	var kept []string
	for _, c := range cells {
		if c != "" {
			kept = append(kept, c)
		}
	}
	return kept
}

func auditRow(signatures *session.Signatures, r audit.Record) []string {
	row := present.AuditRowOf(r, signatures.Verify)
	at := r.Time.Local().Format("2006-01-02 15:04:05")
	return []string{at, row.Event, row.Outcome.Words, row.Enrollment, row.Program, row.Detail}
}
