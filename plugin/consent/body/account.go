package body

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// Bounds of an account.
const (
	maxLines = 12
	// MaxLine is how long, in bytes, a line is at most.
	MaxLine = 300
	maxList = 4
)

// Account is what a person is told of the body of a request that r describes, with the
// headers h: lines that fit a question.
func Account(r consent.Request, h http.Header, data []byte) []string {
	t := teller{r: r}
	err := t.account(h, data)
	var why errUnread
	switch {
	case errors.As(err, &why):
		return []string{Unread(string(why))}
	case t.twice != "":
		return []string{Unread("it has the field " + consent.Quote(t.twice) + " twice, or in another spelling")}
	}
	lines := slices.Concat(t.head, t.loud, t.lines)
	if len(lines) == 0 {
		lines = []string{"empty"}
	}
	if rest := len(lines) - maxLines + t.more; rest > 0 {
		lines = append(lines[:min(len(lines), maxLines)],
			fmt.Sprintf("and %d more lines that are not shown", rest))
	}
	for i, l := range lines {
		lines[i] = shorten(l, MaxLine)
	}
	return lines
}

type object = map[string]any

// teller collects lines: the object first, then those that a person must not miss.
type teller struct {
	r                 consent.Request
	head, loud, lines []string
	more              int    // lines that were left out
	twice             string // a field that is there in two spellings
}

func (t *teller) say(format string, args ...any) { t.add(&t.lines, fmt.Sprintf(format, args...)) }

func (t *teller) warn(format string, args ...any) { t.add(&t.loud, fmt.Sprintf(format, args...)) }

func (t *teller) add(to *[]string, line string) {
	if len(*to) == maxLines {
		t.more++
		return
	}
	*to = append(*to, line)
}

func (t *teller) account(h http.Header, data []byte) error {
	switch {
	case t.r.Connecting:
		return errUnread("it is not for the API server")
	case t.r.Resource == "":
		return errUnread("the path names no resource")
	}
	patch := t.r.Verb == "patch"
	media, err := mediaType(h, patch)
	if err != nil {
		return err
	}
	v, err := decode(media, data)
	if err != nil {
		return err
	}
	if media == typeJSONPatch {
		return t.jsonPatch(v)
	}
	o, ok := v.(object)
	if !ok {
		return errUnread("it is not an object")
	}
	switch {
	case t.r.Verb == "delete" || t.r.Verb == "deletecollection":
		t.deletion(o)
	case patch:
		t.identity(o)
		t.what(o)
		t.changes(o)
	default:
		t.identity(o)
		if t.what(o); len(t.lines) == 0 && len(t.loud) == 0 {
			t.changes(o)
		}
	}
	return nil
}

// get returns a field. A field whose name differs only in case makes the body ambiguous: API
// servers ignore it, other servers may not.
func (t *teller) get(o object, name string) any {
	for k := range o {
		if k != name && len(k) < 64 && strings.EqualFold(k, name) {
			t.twice = k
		}
	}
	return o[name]
}

func (t *teller) str(o object, name string) string { s, _ := t.get(o, name).(string); return s }

func (t *teller) yes(o object, name string) bool { b, _ := t.get(o, name).(bool); return b }

// obj returns the object at a path of fields, nil if there is none.
func (t *teller) obj(o object, path ...string) object {
	for _, name := range path {
		o, _ = t.get(o, name).(object)
	}
	return o
}

// list returns the objects of a list.
func (t *teller) list(o object, name string) []object {
	all, _ := t.get(o, name).([]any)
	var objects []object
	for _, each := range all {
		if each, ok := each.(object); ok {
			objects = append(objects, each)
		}
	}
	return objects
}

func (t *teller) words(o object, name string) []string {
	all, _ := t.get(o, name).([]any)
	var words []string
	for _, each := range all {
		if s, ok := each.(string); ok {
			words = append(words, s)
		}
	}
	return words
}

// names are the first words of a list, quoted unless they are plain.
func names(all []string) string {
	shown := make([]string, 0, maxList+1)
	for _, s := range all[:min(len(all), maxList)] {
		shown = append(shown, name(s))
	}
	if more := len(all) - maxList; more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, ", ")
}

const maxName = 60

func name(s string) string {
	return shorten(consent.Name(s), maxName)
}

// shorten leaves out the middle of a line: oddities are noted at its end.
func shorten(line string, most int) string {
	const cut = "[...]"
	if len(line) <= most {
		return line
	}
	return line[:most/2] + cut + line[len(line)-(most-most/2-len(cut)):]
}

func keys(o object) []string {
	all := make([]string, 0, len(o))
	for k := range o {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func number(v any) string {
	switch v := v.(type) {
	case int64, float64:
		return fmt.Sprint(v)
	case string:
		return name(v)
	}
	return "unknown"
}

// identity names the object, with a warning if the URL names another one: an API server refuses
// such a request, another server may not.
func (t *teller) identity(o object) {
	meta := t.obj(o, "metadata")
	kind, apiVersion, called := t.str(o, "kind"), t.str(o, "apiVersion"), t.str(meta, "name")
	words := "an object"
	if kind != "" {
		words = name(kind)
	}
	switch prefix := t.str(meta, "generateName"); {
	case called != "":
		words += " " + consent.Quote(called)
	case prefix != "":
		words += " with a name that begins with " + consent.Quote(prefix)
	}
	switch {
	case t.r.Verb == "patch" && kind == "":
	case len(t.head) == 0:
		t.head = []string{words}
	default: // an element of a list
		t.say("%s", words)
	}
	if t.r.Name != "" && called != "" && called != t.r.Name {
		t.warn("THE NAME DIFFERS from the request's: %s", consent.Quote(called))
	}
	if ns := t.str(meta, "namespace"); ns != "" && ns != t.r.Namespace {
		t.warn("THE NAMESPACE DIFFERS from the request's: %s", consent.Quote(ns))
	}
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group = ""
	}
	if apiVersion != "" && t.r.Subresource == "" && group != t.r.Group {
		t.warn("THE API GROUP DIFFERS from the request's: %s", consent.Quote(group))
	}
}

func (t *teller) deletion(o object) {
	switch p := t.str(o, "propagationPolicy"); {
	case p == "Orphan", t.yes(o, "orphanDependents"):
		t.say("keeps what belongs to it (Orphan)")
	case p != "":
		t.say("deletes what belongs to it, too (%s)", name(p))
	}
	if g := t.get(o, "gracePeriodSeconds"); g != nil {
		t.say("grace: %s s", number(g))
	}
	if d := t.words(o, "dryRun"); len(d) > 0 {
		t.say("dry run: %s", names(d))
	}
	if p := t.obj(o, "preconditions"); len(p) > 0 {
		t.say("only if it is the version of %s", names(keys(p)))
	}
	if t.yes(o, "ignoreStoreReadErrorWithClusterBreakingPotential") {
		t.warn("EVEN IF IT CANNOT BE READ, which can break the cluster")
	}
}
