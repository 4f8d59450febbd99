package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// Options of [Rules.Plan] and [Rules.PlanRemove].
type Options struct {
	// Replace overwrites (or removes) an entry of that name that is not ours.
	Replace bool
}

// Plan is a change worked out and not yet made. It holds the files as they
// were read, and with them any secret they hold: do not print it.
type Plan struct {
	// Notes are remarks for the user, in words, one line each. Names in them
	// come from the files and are untrusted.
	Notes   []string
	sources []source // everything that was considered
	files   []*fileEdit
	fault   func(step string) // tests end the process here
}

// fileEdit is the change of one file.
type fileEdit struct {
	source
	after   []byte
	remove  bool // delete the file: undo of its creation
	splices []splice
}

// FileChange says what a plan does to one file.
type FileChange struct {
	Path    string
	Created bool
	Removed bool
}

// Empty reports whether everything is already as wanted: Apply will write
// nothing.
func (p *Plan) Empty() bool { return len(p.files) == 0 }

// Files lists the files that Apply writes.
func (p *Plan) Files() []FileChange {
	var list []FileChange
	for _, f := range p.files {
		list = append(list, FileChange{Path: f.path, Created: !f.exists, Removed: f.remove})
	}
	return list
}

// Plan works out how the files become to say e. Each of the three parts stays
// in the file that defines it; new ones go to [Rules.DefaultFile], as does the
// current context. Nothing is written.
//
// Errors wrap [ErrInvalid], [ErrNotOurs], [ErrParse] or [ErrUnsupported].
func (r Rules) Plan(ctx context.Context, e Entry, opts Options) (*Plan, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	w, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.claim(e.Name, opts.Replace); err != nil {
		return nil, err
	}
	ours := map[string]object{}
	for section := range bodyKey {
		if i := w.where(section, e.Name); i >= 0 && isOurs(section, e.Name, w.docs[i].body(section, e.Name)) {
			ours[section] = w.docs[i].body(section, e.Name)
		}
	}
	bodies, err := e.bodies(ours)
	if err != nil {
		return nil, err
	}
	edits := make([][]edit, len(w.docs))
	for _, section := range []string{clusters, contexts, users} {
		i := w.where(section, e.Name)
		if i < 0 {
			i = w.target
		}
		if !sameBody(w.docs[i].body(section, e.Name), bodies[section]) {
			edits[i] = append(edits[i], edit{Section: section, Name: e.Name, Body: bodies[section]})
		}
	}
	if e.SetCurrent && w.current() != e.Name {
		edits[w.target] = append(edits[w.target], edit{Section: currentContext, Value: e.Name})
	}
	return w.plan(edits)
}

// PlanRemove works out how the context, cluster and user called name leave the
// files. A current context of that name is cleared. Parts that are not there
// are skipped; the plan is empty if none is.
func (r Rules) PlanRemove(ctx context.Context, name string, opts Options) (*Plan, error) {
	w, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.claim(name, opts.Replace); err != nil {
		return nil, err
	}
	edits := make([][]edit, len(w.docs))
	for _, section := range []string{clusters, contexts, users} {
		if i := w.where(section, name); i >= 0 {
			edits[i] = append(edits[i], edit{Section: section, Name: name})
		}
	}
	for i, d := range w.docs {
		if name != "" && d.current() == name && w.where(contexts, name) >= 0 {
			edits[i] = append(edits[i], edit{Section: currentContext})
			w.notes = append(w.notes, "no context is current afterwards: choose one with kubectl config use-context")
		}
	}
	return w.plan(edits)
}

// PlanDrop works out how the context called name leaves the files, together with
// its user and its cluster as far as no other context uses them. A current
// context of that name is cleared. The error wraps [ErrNoContext] if there is no
// such context.
func (r Rules) PlanDrop(ctx context.Context, name string) (*Plan, error) {
	c, err := r.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	w, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	edits := make([][]edit, len(w.docs))
	drop := func(section, name string) {
		if i := w.where(section, name); i >= 0 {
			edits[i] = append(edits[i], edit{Section: section, Name: name})
		}
	}
	drop(contexts, c.Name)
	for section, item := range map[string]string{clusters: c.Cluster.Name, users: c.User.Name} {
		if others := w.uses(section, item, c.Name); len(others) == 0 {
			drop(section, item)
		} else {
			w.notes = append(w.notes, fmt.Sprintf("the %s %q stays: it is used by %s", bodyKey[section], item,
				strings.Join(others, ", ")))
		}
	}
	for i, d := range w.docs {
		if d.current() == c.Name {
			edits[i] = append(edits[i], edit{Section: currentContext})
			w.notes = append(w.notes, "no context is current afterwards: choose one with kubectl config use-context")
		}
	}
	slices.Sort(w.notes)
	return w.plan(edits)
}

// uses names the contexts other than name that refer to the item.
func (w *work) uses(section, item, name string) []string {
	var out []string
	for _, d := range w.docs {
		list, _ := d.value[contexts].([]any)
		for _, x := range list {
			m, _ := x.(object)
			body, _ := m[bodyKey[contexts]].(object)
			if other, _ := m["name"].(string); other != name && body[bodyKey[section]] == item {
				out = append(out, other)
			}
		}
	}
	return out
}

// work is all files, opened.
type work struct {
	sources []source
	docs    []*document
	target  int // index of the source that gets new entries
	notes   []string
}

func (r Rules) open(ctx context.Context) (*work, error) {
	sources, err := r.readSettled(ctx)
	if err != nil {
		return nil, err
	}
	w := &work{sources: sources, target: slices.Index(r.Paths(), r.DefaultFile())}
	for _, s := range sources {
		d, err := openDocument(s.data)
		if err != nil {
			return nil, parseError(s.path, err)
		}
		w.docs = append(w.docs, d)
	}
	return w, nil
}

// readSettled reads the files. kubectl truncates a file before it writes it,
// under its lock: a file that is locked and makes no sense is read again for a
// moment.
func (r Rules) readSettled(ctx context.Context) ([]source, error) {
	deadline := time.Now().Add(2 * time.Second)
	for {
		sources, err := r.readAll()
		if err != nil {
			return nil, err
		}
		again := false
		for _, s := range sources {
			if _, err := os.Lstat(lockName(s.path)); err == nil && s.exists && !plausible(s.data) {
				again = true
			}
		}
		if !again || time.Now().After(deadline) {
			return sources, nil
		}
		if err := pause(ctx, lockPoll); err != nil {
			return nil, err
		}
	}
}

func plausible(data []byte) bool {
	_, err := locate(data)
	return err == nil && len(data) > 0
}

// where is the index of the file that defines the item, or -1.
func (w *work) where(section, name string) int {
	return slices.IndexFunc(w.docs, func(d *document) bool { return d.body(section, name) != nil })
}

// current is the context that kubectl takes for the current one.
func (w *work) current() string {
	for _, d := range w.docs {
		if c := d.current(); c != "" {
			return c
		}
	}
	return ""
}

// claim refuses entries that are not ours, unless replace is asked for.
func (w *work) claim(name string, replace bool) error {
	for _, section := range []string{clusters, users, contexts} {
		i := w.where(section, name)
		if replace || i < 0 || isOurs(section, name, w.docs[i].body(section, name)) {
			continue
		}
		return hint.Withf(fmt.Errorf("%s %q in %s: %w", bodyKey[section], name, w.sources[i].path, ErrNotOurs),
			"use another name, or replace the entry with --replace")
	}
	return nil
}

// plan makes the edits of each file.
func (w *work) plan(edits [][]edit) (*Plan, error) {
	p := &Plan{Notes: w.notes, sources: w.sources}
	for i, list := range edits {
		if len(list) == 0 {
			continue
		}
		d := w.docs[i]
		after, splices, err := d.change(list)
		if errors.Is(err, errFlow) {
			err = hint.With(err, inBlockStyle(w.sources[i].path))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.sources[i].path, err)
		}
		f := &fileEdit{source: w.sources[i], after: after, splices: splices}
		p.files = append(p.files, f)
		p.Notes = append(p.Notes, modeNotes(f)...)
		p.Notes = append(p.Notes, otherUses(d, list)...)
	}
	return p, nil
}

// inBlockStyle is how a kubeconfig comes to be one that can be edited.
func inBlockStyle(path string) string {
	path = shell.Quote(path)
	view := fmt.Sprintf("kubectl config view --raw --flatten --kubeconfig %s > %s.yaml", path, path)
	private := "(umask 077; " + view + ")" // it holds what the file holds
	return "write it in block style, and put the new file in its place: " + hint.PerOS(private, private, view)
}

// modeNotes warns of a kubeconfig that others can read.
func modeNotes(f *fileEdit) []string {
	info, err := os.Stat(f.path)
	if err != nil || info.Mode().Perm()&0o077 == 0 || !modeMatters {
		return nil
	}
	return []string{fmt.Sprintf("%s can be read by others (mode %#o, which is kept): chmod 600 %s", f.path,
		info.Mode().Perm(), shell.Quote(f.path))}
}

// otherUses names the contexts that use what is being removed and stay.
func otherUses(d *document, edits []edit) []string {
	removed := map[string]map[string]bool{clusters: {}, users: {}, contexts: {}}
	for _, e := range edits {
		if e.Section != currentContext && e.Body == nil {
			removed[e.Section][e.Name] = true
		}
	}
	var orphans []string
	list, _ := d.value[contexts].([]any)
	for _, x := range list {
		m, _ := x.(object)
		body, _ := m[bodyKey[contexts]].(object)
		name, _ := m["name"].(string)
		cluster, _ := body["cluster"].(string)
		user, _ := body["user"].(string)
		if !removed[contexts][name] && (removed[clusters][cluster] || removed[users][user]) {
			orphans = append(orphans, name)
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	return []string{"these contexts use it too and will not work any more: " + strings.Join(orphans, ", ")}
}
