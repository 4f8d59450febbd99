package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/kubehsm/kubehsm/ui/text"
)

// columns lays out rows page by page as they come. A page is never narrower than an earlier one.
type columns struct {
	w       *words
	page    int // rows
	heading []string
	minor   []string // see [words.table]
	widths  []int
	rows    [][]string
	shown   []int // the columns that are shown, from the first page on
}

func (c *columns) add(row []string) error {
	for i := range row {
		row[i] = text.Clean(row[i])
		if i == len(c.widths) {
			c.widths = append(c.widths, 0)
		}
		c.widths[i] = max(c.widths[i], text.Width(row[i]))
	}
	if c.rows = append(c.rows, row); len(c.rows) < c.page {
		return nil
	}
	return c.flush()
}

func (c *columns) flush() error {
	if c.shown == nil {
		c.shown = c.w.fitting(c.heading, c.widths, c.minor)
	}
	for _, row := range c.rows {
		c.w.aligned(only(row, c.shown), only(c.widths, c.shown))
	}
	c.rows = c.rows[:0]
	return c.w.flush()
}

// emitList writes a document with one list, member by member, so that it is never in memory as a
// whole. After an error the document is cut short and invalid.
func (a *app) emitList(f *format, name string, members iter.Seq2[any, error]) error {
	open, between, end := "{\n  \""+name+"\": [", ",", "\n  ]\n}\n"
	encode := func(v any) ([]byte, error) { return jsonOf(v, utf16Escape) }
	if f.value == "yaml" {
		open, between, end = name+":", "", "\n"
		encode = func(v any) ([]byte, error) { return yamlOf([]any{v}) }
	}
	if _, err := io.WriteString(a.Stdout, open); err != nil {
		return err
	}
	first := true
	for v, err := range members {
		if err != nil {
			return err
		}
		b, err := encode(v)
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.value, err)
		}
		lead := between
		if first {
			first, lead = false, ""
		}
		body := strings.TrimRight(string(b), "\n")
		if f.value == "json" {
			body = "    " + strings.ReplaceAll(body, "\n", "\n    ")
		}
		if _, err := io.WriteString(a.Stdout, lead+"\n"+body); err != nil {
			return err
		}
	}
	if first {
		end = map[string]string{"json": "]\n}\n", "yaml": " []\n"}[f.value]
	}
	_, err := io.WriteString(a.Stdout, end)
	return err
}

func (a *app) emitLine(doc any) error {
	b, err := jsonOf(doc, utf16Escape)
	if err != nil {
		return fmt.Errorf("writing json: %w", err)
	}
	var line []byte
	if line, err = json.Marshal(json.RawMessage(b)); err == nil {
		_, err = a.Stdout.Write(append(line, '\n'))
	}
	return err
}
