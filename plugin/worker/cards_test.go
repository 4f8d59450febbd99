package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// mute is a driver of smart cards whose service does not answer until it is told to.
type mute struct {
	hsm.Driver
	answer chan struct{}
}

func (mute) Scheme() string { return hsm.SchemePIV }
func (mute) Close() error   { return nil }

func (m mute) List(context.Context) (hsm.Listing, error) {
	<-m.answer // whatever becomes of the context
	return hsm.Listing{Tokens: []hsm.TokenInfo{{Scheme: hsm.SchemePIV, Serial: "1"}}}, nil
}

// TestMuteCards: a smart card service that hangs is named, at the limit at the
// latest, and once it answers its cards are there.
func TestMuteCards(t *testing.T) {
	m := mute{answer: make(chan struct{})}
	c := newCards(m)
	c.limit = time.Hour
	_, problems, err := c.Views(t.Context(), time.Millisecond, all)
	if err != nil || len(problems) != 1 || !errors.Is(problems[0].Err, hsm.ErrPending) {
		t.Errorf("%v, %v", problems, err)
	}
	c.limit = time.Millisecond
	_, _, err = c.Views(t.Context(), 0, all)
	if !errors.Is(err, hsm.ErrModule) || hint.Of(err) == "" {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	close(m.answer)
	c.limit = time.Hour
	views, problems, err := c.Views(t.Context(), 0, all)
	if err != nil || len(problems) > 0 || len(views) != 1 || views[0].Info.Serial != "1" {
		t.Errorf("%+v, %v, %v", views, problems, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// all leaves no token out.
func all(hsm.TokenInfo) bool { return false }
