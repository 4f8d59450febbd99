package kubeconfig

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// PlanUndo works out how to take a step back; an empty id means the newest that has
// come to anything: a process that was killed before it changed a file leaves a record
// of nothing. The result is a plan like any other: it can be shown, and applied with
// the same journal, and undone in turn.
//
// Where a file is as the step left it, it becomes byte for byte what it was
// before (and is removed if the step made it). Where others changed it since,
// only the step's own entries are restored, and only if those are as the step
// left them: otherwise the error wraps [ErrConflict]. A current context chosen
// since is left alone, with a note. Files that a killed process never wrote are
// skipped. The error wraps [ErrNoStep] if there is no such step.
func (j *Journal) PlanUndo(ctx context.Context, id string) (*Plan, error) {
	if id != "" {
		p, _, err := j.planUndo(ctx, id)
		return p, err
	}
	ids, err := j.ids()
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrNoStep)
	}
	var p *Plan
	for _, id := range slices.Backward(ids) {
		var done bool
		if p, done, err = j.planUndo(ctx, id); err != nil || done || !p.Empty() {
			return p, err
		}
	}
	return p, nil
}

// planUndo works out how to take the step id back; done tells whether its process
// came to the end.
func (j *Journal) planUndo(ctx context.Context, id string) (p *Plan, done bool, err error) {
	if !stepID.MatchString(id) {
		return nil, false, fmt.Errorf("%w: %q", ErrNoStep, id)
	}
	r, err := j.load(id)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrNoStep, err)
	}
	p = &Plan{Title: "undo: " + r.Title, Name: r.Name}
	for _, fr := range r.Files {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if !filepath.IsAbs(fr.Path) {
			return nil, false, fmt.Errorf("%w: %s: not absolute", ErrNoStep, fr.Path)
		}
		now, err := readSource(fr.Path)
		if err != nil {
			return nil, false, err
		}
		p.sources = append(p.sources, now)
		f, notes, err := fr.undo(now)
		if err != nil {
			return nil, false, err
		}
		p.Notes = append(p.Notes, notes...)
		if f != nil {
			p.files = append(p.files, f)
		}
	}
	return p, r.Done, nil
}

// undo is the change of one file, nil if there is none to make.
func (fr fileRecord) undo(now source) (*fileEdit, []string, error) {
	sum := digest(now.data)
	switch {
	case now.exists == fr.Existed && sum == fr.Before:
		return nil, nil, nil
	case now.exists == !fr.Removed && sum == fr.After:
		return fr.exact(now)
	}
	return fr.entries(now)
}

// exact restores the bytes.
func (fr fileRecord) exact(now source) (*fileEdit, []string, error) {
	for i, s := range fr.Undo {
		if s.Start < 0 || s.End < s.Start || s.End > len(now.data) || i > 0 && s.Start < fr.Undo[i-1].End {
			return nil, nil, fmt.Errorf("%s: %w: the record is damaged", now.path, ErrConflict)
		}
	}
	f := &fileEdit{source: now, after: applySplices(now.data, fr.Undo), splices: fr.Undo, remove: !fr.Existed,
		edits: fr.Reverse, reverse: fr.Edits}
	if digest(f.after) != fr.Before {
		return nil, nil, fmt.Errorf("%s: %w: the record is damaged", now.path, ErrConflict)
	}
	return f, nil, nil
}

// entries restores the step's entries in a file that others have changed.
func (fr fileRecord) entries(now source) (*fileEdit, []string, error) {
	names := map[string]string{}
	for _, e := range fr.Edits {
		if e.Section != currentContext {
			names[e.Section] = e.Name
		}
	}
	d, err := openDocument(now.data, names)
	if err != nil {
		return nil, nil, parseError(now.path, err)
	}
	var notes []string
	f := &fileEdit{source: now}
	for i, done := range fr.Edits {
		if i >= len(fr.Reverse) || fr.Reverse[i].Section != done.Section || fr.Reverse[i].Name != done.Name {
			return nil, nil, fmt.Errorf("%s: %w: the record is damaged", now.path, ErrConflict)
		}
		back := fr.Reverse[i]
		if done.Section == currentContext {
			switch d.current() {
			case back.Value:
				continue
			case done.Value:
			default:
				notes = append(notes, "the current context was changed since and stays as it is")
				continue
			}
		} else if body := d.body(done.Section, done.Name); sameBody(body, back.Body) {
			continue
		} else if !sameBody(body, done.Body) {
			return nil, nil, hint.Withf(fmt.Errorf("%s %q in %s: %w", bodyKey[done.Section], done.Name, now.path, ErrConflict),
				"edit the file by hand, or set the entry anew")
		}
		f.edits = append(f.edits, back)
		f.reverse = append(f.reverse, reverseOf(d, done))
	}
	if len(f.edits) == 0 {
		return nil, notes, nil
	}
	if f.after, f.splices, err = d.change(f.edits); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", now.path, err)
	}
	return f, notes, nil
}
