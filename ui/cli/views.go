package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui"
)

type views struct {
	tokens   []hsm.View
	problems []hsm.Problem
	shown    []hsm.View // tokens that were shown already
}

// views reads all tokens. It names a library that keeps the others waiting; show, if not nil, shows
// the tokens read so far.
func (a *app) views(ctx context.Context, show func([]hsm.View) error) (views, error) {
	tokens, err := a.tokens()
	if err != nil {
		return views{}, err
	}
	var v views
	if v.tokens, v.problems, err = tokens.ListNow(ctx); err != nil {
		return views{}, err
	}
	notes := a.err()
	for _, p := range v.problems {
		if errors.Is(p.Err, hsm.ErrPending) {
			notes.line("note: %s: %s; still waiting", p.Source, ui.Message(p.Err))
		}
	}
	if notes.b.Len() == 0 {
		return v, nil
	}
	if show != nil {
		if err := show(v.tokens); err != nil {
			return views{}, err
		}
		v.shown = v.tokens
	}
	if err := notes.flush(); err != nil {
		return views{}, err
	}
	v.tokens, v.problems, err = tokens.List(ctx)
	return v, err
}

func (v views) late() []hsm.View {
	return slices.DeleteFunc(slices.Clone(v.tokens), func(t hsm.View) bool {
		return slices.ContainsFunc(v.shown, func(s hsm.View) bool {
			return s.Info.URI().String() == t.Info.URI().String() && s.Info.Reader == t.Info.Reader
		})
	})
}

// errUnread tells scripts that a token which is not listed may yet be there.
var errUnread = hint.With(errors.New("some tokens or libraries could not be read: the notes above say which"),
	"`kubehsm doctor` checks each of them")

// unread is [errUnread] if a token could not be read, or if nothing was found and a library failed.
// A library that fails beside others is often one that nobody uses.
func (v views) unread(found bool) error {
	if slices.ContainsFunc(v.tokens, func(t hsm.View) bool { return t.Err != nil }) ||
		!found && slices.ContainsFunc(v.problems, func(p hsm.Problem) bool { return errors.Is(p.Err, hsm.ErrModule) }) {
		return errUnread
	}
	return nil
}
