package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/cli"
)

// manual writes the page of c and those of the commands below it into dir. SOURCE_DATE_EPOCH dates them, so that builds
// repeat.
func manual(c *cobra.Command, version, dir string) error {
	date := time.Now()
	if s := os.Getenv("SOURCE_DATE_EPOCH"); s != "" {
		seconds, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		date = time.Unix(seconds, 0)
	}
	for _, sub := range c.Commands() {
		if !sub.IsAdditionalHelpTopicCommand() { // topics have no pages
			if err := manual(sub, version, dir); err != nil {
				return err
			}
		}
	}
	p := page{}
	p.write(c, date.UTC().Format(time.DateOnly), version)
	return os.WriteFile(filepath.Join(dir, pageName(c)+".1"), []byte(p.String()), 0o644)
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// columns is the width of examples: that of a terminal, without the indentation of a page.
const columns = 80 - 7

// page is a manual page in the macros of man(7).
type page struct{ strings.Builder }

func (p *page) write(c *cobra.Command, date, version string) {
	p.macro("TH", strings.ToUpper(pageName(c)), "1", date, "kubehsm "+version, "kubehsm")
	p.macro("nh")
	p.macro("ad l")
	p.section("NAME")
	p.line(roff(pageName(c)) + ` \- ` + roff(c.Short))
	p.section("SYNOPSIS")
	name, rest, _ := strings.Cut(c.UseLine(), " [flags]")
	own := strings.TrimPrefix(name, c.CommandPath())
	synopsis := `\fB` + roff(c.CommandPath()) + `\fR` + roff(own)
	if c.HasSubCommands() {
		synopsis += ` [\fIcommand\fR]`
	}
	p.line(synopsis + ` [\fIflags\fR]` + roff(rest))
	p.section("DESCRIPTION")
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	p.prose(about)
	p.commands(c)
	for _, s := range cli.FlagSections(c) {
		p.section(strings.ToUpper(s.Title))
		for _, f := range s.Flags {
			flag, value, _ := strings.Cut(cli.FlagName(f), "--"+f.Name)
			text := `\fB` + roff(flag+"--"+f.Name) + `\fR`
			if value != "" {
				text += ` \fI` + roff(strings.TrimSpace(value)) + `\fR`
			}
			p.item(text, cli.FlagUsage(f))
		}
	}
	if c.HasExample() {
		p.section("EXAMPLES")
		p.macro("EX")
		for line := range strings.SplitSeq(c.Example, "\n") {
			for _, l := range cli.ExampleLines(strings.TrimPrefix(line, "  "), columns) {
				p.line(roff(l))
			}
		}
		p.macro("EE")
	}
	for _, s := range []struct {
		title   string
		entries []cli.Entry
	}{{"EXIT STATUS", cli.ExitCodes(c)}, {"ENVIRONMENT", cli.Environment(c)}, {"FILES", cli.Files(c)}} {
		if len(s.entries) == 0 {
			continue
		}
		p.section(s.title)
		for _, e := range s.entries {
			p.item(`\fB`+roff(e.Name)+`\fR`, e.Text)
		}
	}
	p.seeAlso(c)
}

// commands lists the commands below c, by their groups.
func (p *page) commands(c *cobra.Command) {
	groups := c.Groups()
	if c.HasSubCommands() && len(groups) == 0 {
		groups = []*cobra.Group{{Title: "Commands"}}
	}
	for _, g := range groups {
		p.section(strings.ToUpper(g.Title))
		for _, sub := range c.Commands() {
			if sub.GroupID == g.ID {
				p.item(`\fB`+roff(sub.Name())+`\fR`, sub.Short)
			}
		}
	}
}

// seeAlso names the pages of the commands above, below and beside c.
func (p *page) seeAlso(c *cobra.Command) {
	var names []string
	if c.HasParent() {
		names = append(names, pageName(c.Parent()))
	}
	near := c
	if !c.HasSubCommands() && c.Parent().HasParent() {
		near = c.Parent()
	}
	for _, sub := range near.Commands() {
		if !sub.IsAdditionalHelpTopicCommand() && sub != c {
			names = append(names, pageName(sub))
		}
	}
	p.section("SEE ALSO")
	for i, name := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		p.line(`.BR \%` + roff(name) + ` (1)` + end)
	}
}

func (p *page) line(s string) { p.WriteString(s + "\n") }

func (p *page) macro(name string, args ...string) {
	for _, a := range args {
		name += ` "` + a + `"`
	}
	p.line("." + name)
}

func (p *page) section(title string) { p.macro("SH", title) }

// item adds a name, already in roff, and its description.
func (p *page) item(name, text string) {
	p.macro("TP")
	p.line(name)
	p.line(roff(text))
}

// prose adds paragraphs. Indented lines stay lines.
func (p *page) prose(s string) {
	verbatim, first := false, true
	for _, l := range cli.Paragraphs(s) {
		if l == "" {
			continue
		}
		asIs := cli.Indented(l)
		if asIs != verbatim {
			p.macro(map[bool]string{true: "EX", false: "EE"}[asIs])
		} else if !asIs && !first {
			p.macro("PP")
		}
		verbatim, first = asIs, false
		p.line(roff(l))
	}
	if verbatim {
		p.macro("EE")
	}
}

// roff writes text so that roff shows it as it is.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "…", "...", "×", `\(mu`, "–", `\(en`).
		Replace(s)
	words := strings.Split(s, " ")
	for i, w := range words {
		if strings.ContainsAny(w, "./_") { // a name: it is not hyphenated
			words[i] = `\%` + w
		}
	}
	return strings.Join(words, " ")
}
