// Package verb describes the options of a command once: flags, the fields of a form, and the
// command line that a person can copy come from the description.
package verb

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// Option is one option of a command. Its zero value is "not given".
type Option struct {
	// Flag is the name on the command line, without dashes; "" for an argument. Usage describes it, with
	// the name of the value in back quotes.
	Flag, Usage string
	// Into points to the value: a string, list of strings, map of strings, bool,
	// [time.Duration], [hsm.Algorithm] or [encoding.TextUnmarshaler].
	Into any

	// Label names the field in a form. Empty stands in the field while nothing is typed,
	// Note below it while it has the focus.
	Label, Empty, Note string
	// Choices are what a form offers; without any the value is typed.
	Choices []Choice
	// Separator stands between the words of a list in a form; default a comma.
	Separator rune
	// Required says that a form takes no empty value.
	Required bool
}

// Choice is one value to choose in a form.
type Choice struct {
	Value  string // as [Option.Set] reads it
	Label  string // default the value
	Clause string // meaning of the choice
	Reason string // why it cannot be chosen, "" if it can
}

// Argument is an argument of a command that is known already.
func Argument(value string) Option { return Option{Into: &value} }

// Flag is a flag with a value that is known already; it is left out if the value is "".
func Flag(name, value string) Option { return Option{Flag: name, Into: &value} }

// Line is the command line of the program's command words with these options. Options that are
// not given are left out.
func Line(words string, options ...Option) string {
	line := []string{"kubehsm " + words}
	for _, o := range options {
		if o.Given() {
			line = o.AppendTo(line)
		}
	}
	return strings.Join(line, " ")
}

// Given reports whether the option has a value other than the zero value.
func (o Option) Given() bool {
	switch v := reflect.ValueOf(o.Into).Elem(); v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	default:
		return !v.IsZero()
	}
}

// AppendTo appends the option with its value to a command line.
func (o Option) AppendTo(line []string) []string {
	if _, ok := o.Into.(*bool); ok {
		return append(line, "--"+o.Flag)
	}
	for _, word := range o.words() {
		if word == "" && o.Flag != "" {
			continue
		}
		if o.Flag != "" {
			line = append(line, "--"+o.Flag)
		}
		line = append(line, shell.Quote(word))
	}
	return line
}

// words are the values on the command line, one for each time that the flag is given.
func (o Option) words() []string {
	switch p := o.Into.(type) {
	case *[]string:
		return *p
	case *map[string]string:
		var all []string
		for _, k := range slices.Sorted(maps.Keys(*p)) {
			all = append(all, k+"="+(*p)[k])
		}
		return all
	}
	return []string{o.Text()}
}

// Text is the value as [Option.Set] reads it.
func (o Option) Text() string {
	switch p := o.Into.(type) {
	case *[]string:
		return o.join(*p)
	case encoding.TextMarshaler:
		text, err := p.MarshalText()
		if err != nil {
			return ""
		}
		return string(text)
	case *time.Duration:
		if *p == 0 {
			return ""
		}
	}
	return fmt.Sprint(reflect.ValueOf(o.Into).Elem())
}

// Set reads the value from a form's field. A separator after a backslash is part of a word.
func (o Option) Set(text string) (err error) {
	text = strings.TrimSpace(text)
	switch p := o.Into.(type) {
	case *string:
		*p = text
	case *[]string:
		*p = o.split(text)
	case *bool:
		*p = text == "true"
	case *time.Duration:
		if *p = 0; text != "" {
			*p, err = time.ParseDuration(text)
		}
	case *hsm.Algorithm:
		return (*algorithm)(p).UnmarshalText([]byte(text))
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	default:
		return fmt.Errorf("no form can ask for a %T", o.Into)
	}
	return err
}

// Bind adds the options to flags.
func Bind(flags *pflag.FlagSet, options ...Option) {
	for _, o := range options {
		switch p := o.Into.(type) {
		case *string:
			flags.StringVar(p, o.Flag, *p, o.Usage)
		case *[]string:
			flags.StringArrayVar(p, o.Flag, nil, o.Usage)
		case *bool:
			flags.BoolVar(p, o.Flag, false, o.Usage)
		case *time.Duration:
			flags.DurationVar(p, o.Flag, *p, o.Usage)
		case *map[string]string:
			flags.Var(pairs{p}, o.Flag, o.Usage)
		case *hsm.Algorithm:
			flags.Var(text{(*algorithm)(p)}, o.Flag, o.Usage)
		case encoding.TextUnmarshaler:
			flags.Var(text{p}, o.Flag, o.Usage)
		}
	}
}

// text is a flag whose value reads itself. Its default is not shown.
type text struct{ encoding.TextUnmarshaler }

func (t text) Set(s string) error { return t.UnmarshalText([]byte(s)) }
func (text) String() string       { return "" }
func (text) Type() string         { return "string" }

type algorithm hsm.Algorithm

func (a *algorithm) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*a = ""
		return nil
	}
	x, err := hsm.ParseAlgorithm(string(b))
	*a = algorithm(x)
	return err
}

// pairs is a flag that is given once for each key=value.
type pairs struct{ into *map[string]string }

func (p pairs) Set(s string) error {
	k, v, ok := strings.Cut(s, "=")
	if !ok || k == "" {
		return fmt.Errorf("%q is not of the form key=value", s)
	}
	if *p.into == nil {
		*p.into = map[string]string{}
	}
	(*p.into)[k] = v
	return nil
}

func (pairs) String() string { return "" }
func (pairs) Type() string   { return "stringArray" }

func (o Option) separator() rune { return cmp.Or(o.Separator, ',') }

func (o Option) split(s string) []string {
	var all []string
	word, escaped := strings.Builder{}, false
	for _, r := range s + string(o.separator()) {
		switch {
		case escaped:
			if r != o.separator() && r != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == o.separator():
			if w := strings.TrimSpace(word.String()); w != "" && !slices.Contains(all, w) {
				all = append(all, w)
			}
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return all
}

func (o Option) join(words []string) string {
	separator := string(o.separator())
	escaped := make([]string, len(words))
	for i, w := range words {
		escaped[i] = strings.NewReplacer(`\`, `\\`, separator, `\`+separator).Replace(w)
	}
	return strings.Join(escaped, separator+" ")
}
