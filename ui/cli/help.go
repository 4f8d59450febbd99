package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/text"
)

// The annotations of flags.
const (
	// flagHeading is the heading of the flag in the help of a command with many flags.
	flagHeading = "heading"
	// flagValue is what the help calls the value of the flag. A switch has none.
	flagValue = "value"
	// flagChoices are the values that completion offers for the flag.
	flagChoices = "choices"
)

// manyFlags is the number of flags from which on they are shown under headings.
const manyFlags = 14

// The widths of help, in columns: the one where the terminal's is not known, the largest one, and the largest one of
// the
// names in front of descriptions.
const (
	helpWidth      = 80
	helpWidthMost  = 100
	helpNamesWidth = 30
)

// headings are those of flags, in the order in which help shows them.
var headings = []string{headingCluster, enrolling.HeadingIdentity, enrolling.HeadingKey, enrolling.HeadingRequest,
	enrolling.HeadingApproval, enrolling.HeadingKubeconfig, headingOther}

// The headings of flags that are no options of an enrollment.
const (
	headingCluster = "Cluster flags"
	headingOther   = "Flags"
)

// annotate gives flags an annotation.
func annotate(flags *pflag.FlagSet, key string, values []string, names ...string) {
	for _, name := range names {
		ensure(flags.SetAnnotation(name, key, values))
	}
}

// annotated is the annotation of a flag.
func annotated(f *pflag.Flag, key string) string { return strings.Join(f.Annotations[key], ",") }

// readUsages moves the names of values out of the descriptions of flags, where they are in back quotes, into
// annotations:
// shells show descriptions as they are.
func readUsages(c *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Annotations[flagValue] != nil {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			f.Usage = usage
			annotate(flags, flagValue, []string{value}, f.Name)
		})
	}
}

// FlagSection is a part of the flags of a command, with its heading.
type FlagSection struct {
	Title string
	Flags []*pflag.Flag
}

// FlagSections are the flags of a command in the order in which help and manual pages show them. Those of all commands
// come last.
func FlagSections(c *cobra.Command) []FlagSection {
	var own, global []*pflag.Flag
	collect := func(to *[]*pflag.Flag) func(*pflag.Flag) {
		return func(f *pflag.Flag) {
			if !f.Hidden {
				*to = append(*to, f)
			}
		}
	}
	if c.IsAdditionalHelpTopicCommand() {
		return nil
	}
	c.NonInheritedFlags().VisitAll(collect(&own))
	if c.HasParent() {
		c.InheritedFlags().VisitAll(collect(&global))
	}
	var sections []FlagSection
	for _, f := range own {
		title := annotated(f, flagHeading)
		if title == "" || len(own) < manyFlags {
			title = headingOther
		}
		at := slices.IndexFunc(sections, func(s FlagSection) bool { return s.Title == title })
		if at < 0 {
			at, sections = len(sections), append(sections, FlagSection{Title: title})
		}
		sections[at].Flags = append(sections[at].Flags, f)
	}
	slices.SortStableFunc(sections, func(a, b FlagSection) int {
		return slices.Index(headings, a.Title) - slices.Index(headings, b.Title)
	})
	if len(global) > 0 {
		sections = append(sections, FlagSection{"Global flags", global})
	}
	return sections
}

// FlagName is how a flag is written: "-o, --output format".
func FlagName(f *pflag.Flag) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if value := annotated(f, flagValue); value != "" {
		name += " " + value
	}
	return name
}

// shortDuration writes a default duration as one would type it: 24h, not 24h0m0s.
var shortDuration = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// FlagUsage describes a flag, with its default if that is a value.
func FlagUsage(f *pflag.Flag) string {
	switch value := shortDuration.Replace(strings.Trim(f.DefValue, "[]")); value {
	case "", "0", "0s", "-1", "false":
		return f.Usage
	default:
		return f.Usage + " (default " + strings.ReplaceAll(value, ",", ", ") + ")"
	}
}

// help writes the help of a command.
func (a *app) help(c *cobra.Command, _ []string) {
	w := a.out()
	width := w.columns()
	if width == 0 {
		width = helpWidth
	}
	h := helpPage{width: min(width, helpWidthMost)}
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	h.prose(about)
	if c.Runnable() || c.HasAvailableSubCommands() {
		h.title("Usage")
		if c.Runnable() && (!c.HasSubCommands() || !c.HasParent()) {
			h.example("  " + c.UseLine())
		}
		if c.HasAvailableSubCommands() {
			h.line("  " + c.CommandPath() + " [command]")
		}
	}
	if len(c.Aliases) > 0 {
		h.title("Aliases")
		h.line("  " + c.NameAndAliases())
	}
	if c.HasExample() {
		h.title("Examples")
		for line := range strings.SplitSeq(c.Example, "\n") {
			h.example(line)
		}
	}
	h.commands(c)
	for _, s := range FlagSections(c) {
		h.title(s.Title)
		rows := make([][2]string, 0, len(s.Flags))
		for _, f := range s.Flags {
			name := FlagName(f)
			if f.Shorthand == "" {
				name = "    " + name
			}
			rows = append(rows, [2]string{name, FlagUsage(f)})
		}
		h.rows(rows)
	}
	if c.HasAvailableSubCommands() {
		h.line("")
		h.prose("Run \"" + c.CommandPath() + " [command] --help\" for more about a command.")
	}
	w.block(strings.Trim(h.b.String(), "\n"))
	_ = w.flush() // standard output is closed: nobody reads help
}

// helpPage gathers the help of a command.
type helpPage struct {
	width int
	b     strings.Builder
}

func (h *helpPage) line(s string) { h.b.WriteString(s + "\n") }

func (h *helpPage) title(s string) { h.line("\n" + s + ":") }

// prose adds paragraphs. Their lines are broken anew, except for indented ones.
func (h *helpPage) prose(s string) {
	for _, l := range Paragraphs(s) {
		if Indented(l) {
			h.line(l)
			continue
		}
		for _, l := range text.Wrap(l, h.width) {
			h.line(l)
		}
	}
}

// Indented reports whether a line of a text stays as it is.
func Indented(line string) bool { return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") }

// Paragraphs are the paragraphs of a text, each as one line, with empty lines between them. Indented lines stay lines.
func Paragraphs(s string) []string {
	var all []string
	joins := false
	for line := range strings.SplitSeq(s, "\n") {
		if joins && line != "" && !Indented(line) {
			all[len(all)-1] += " " + line
			continue
		}
		all = append(all, line)
		joins = line != "" && !Indented(line)
	}
	return all
}

// example adds a command line.
func (h *helpPage) example(s string) {
	for _, l := range ExampleLines(s, h.width) {
		h.line(l)
	}
}

// ExampleLines breaks a command line before flags, in a way that shells understand, where it is wider than width.
func ExampleLines(s string, width int) []string {
	var lines []string
	indent := s[:len(s)-len(strings.TrimLeft(s, " "))] + "   "
	line := ""
	for i, part := range strings.Split(s, " --") {
		if i > 0 {
			part = " --" + part
		}
		if line != "" && text.Width(line)+text.Width(part) > width-2 {
			lines = append(lines, line+" \\")
			line = indent
		}
		line += part
	}
	return append(lines, line)
}

// commands adds the commands below c, by their groups.
func (h *helpPage) commands(c *cobra.Command) {
	list := func(title string, wanted func(*cobra.Command) bool) {
		var rows [][2]string
		for _, sub := range c.Commands() {
			if !sub.Hidden && wanted(sub) {
				rows = append(rows, [2]string{sub.Name(), sub.Short})
			}
		}
		if len(rows) > 0 {
			h.title(title)
			h.rows(rows)
		}
	}
	for _, g := range c.Groups() {
		list(g.Title, func(sub *cobra.Command) bool { return sub.GroupID == g.ID })
	}
	list("Commands", func(sub *cobra.Command) bool { return sub.GroupID == "" && sub.Runnable() })
	list("Help topics", func(sub *cobra.Command) bool { return sub.IsAdditionalHelpTopicCommand() })
}

// rows adds names and their descriptions, side by side.
func (h *helpPage) rows(rows [][2]string) {
	names := 0
	for _, r := range rows {
		if n := text.Width(r[0]); n <= helpNamesWidth {
			names = max(names, n)
		}
	}
	indent := strings.Repeat(" ", names+4)
	for _, r := range rows {
		lead := "  " + text.Pad(r[0], names) + "  "
		if text.Width(r[0]) > names {
			h.line("  " + r[0])
			lead = indent
		}
		for _, l := range text.Wrap(r[1], max(h.width-len(indent), 20)) {
			h.line(lead + l)
			lead = indent
		}
	}
}

// unknownCommand is the error for a command that does not exist, with what may have been meant: a command beside it,
// or,
// at the root, one of that name anywhere.
func unknownCommand(c *cobra.Command, name string) error {
	err := ui.Usagef("unknown command %q for %q", name, c.CommandPath())
	like := likely(c, name)
	if len(like) == 0 && !c.HasParent() {
		for _, below := range everyCommand(c) {
			if below.Name() == name && below.IsAvailableCommand() {
				like = append(like, strings.TrimPrefix(below.CommandPath(), c.CommandPath()+" "))
			}
		}
	}
	if len(like) == 0 {
		return err
	}
	for i, l := range like {
		like[i] = "`" + c.CommandPath() + " " + l + "`"
	}
	return hint.With(err, "did you mean "+either(like)+"?")
}

// unknownFlag adds to the error for a flag that does not exist which one may have been meant.
func unknownFlag(c *cobra.Command, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return err
	}
	flags := &cobra.Command{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	like := likely(flags, name)
	if len(like) == 0 {
		return err
	}
	for i, l := range like {
		like[i] = "--" + l
	}
	return hint.With(&ui.UsageError{Err: err}, "did you mean "+either(like)+"?")
}

// likely are the commands below c that resemble a name, three at most.
func likely(c *cobra.Command, name string) []string {
	c.SuggestionsMinimumDistance = 1 + len(name)/6 // letters that may be wrong
	like := c.SuggestionsFor(name)
	return like[:min(len(like), 3)]
}

// either joins alternatives.
func either(all []string) string {
	last := len(all) - 1
	if last == 0 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " or " + all[last]
}
